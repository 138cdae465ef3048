// The operations of the graph. Each has an id; the table in op_table.cpp describes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/program.h"
#include "volta/export.h"
#include "volta/shape.h"

namespace volta::graph {

class Vjp;
struct FormulaText;
struct ParsedFormula;

enum class OpId : std::uint16_t {
// Scalar operations come first, in the order of kernel::ScalarOp.
#define VOLTA_SCALAR_OP(name, ...) name,
#include "kernel/scalar_ops.def"
#undef VOLTA_SCALAR_OP
  // Other primitives. Comments list (attributes) inputs: results.
  cast,      // converts to the node's dtype
  constant,  // one number in every element; never pending
  iota,      // (axis, sizes...): the index along an axis
  philox,    // (sizes...) seed, offset: random words (i64) or uniforms (floats)
  reshape,   // (sizes...)
  permute,   // (order...)
  expand,    // (sizes...)
  shrink,    // (start..., size...)
  pad,       // (before..., size...): the second input, a constant, is the padding value
  stride,    // (start..., step..., size...): steps may be negative
  unfold,    // (axis, size, step): windows along an axis; the new last axis runs through a window
  sum,       // (axes...): removes the axes
  prod,      // (axes...)
  max,       // (axes...)
  min,       // (axes...)
  argmax,    // (axes...)
  argmin,    // (axes...)
  gather,    // rows of [n, ...] at integer indices of any shape
  matmul,    // (transpose_a, transpose_b, tf32): rank 2, or rank 3 with equal batches
  output,    // (number): one result of an operation that has several
  to_device,
  function,         // the tape record of a call of a user's Function
  function_output,  // (number): passes the gradient of one output to the call's record
// Composed operations: one recorded node, expanded into primitives when a plan is built. Formulas
// come first.
#define VOLTA_FORMULA(name, ...) name,
#include "graph/record/elementwise.def"
  formula_grad,  // (operation, parameter) g, values that the formula uses: gradient of the
                 // parameter
  mean,          // (axes...)
  sum_to,        // sums a broadcast gradient back to the node's shape
  max_along,     // (axis): largest element, position of its first occurrence
  min_along,     // (axis)
  var,           // (bits of the correction, axes...)
  std,           // (bits of the correction, axes...)
  norm,          // (bits of p, axes...) x, p: p is an input only if it is not 0, 1, 2 or infinite
  logsumexp,     // (axes...)
  concat,        // (axis): operands one after the other
  softmax,       // (axis)
  log_softmax,   // (axis)
  linear,        // (tf32)
  // Convolutions of images [n, c, h, w]: (stride, padding, dilation per axis, groups, tf32); see
  // graph/attributes/convolution.h.
  conv,              // x, weight, bias
  conv_input_grad,   // gradient of the result, weight, bias: also the transposed convolution
  conv_weight_grad,  // x, gradient of the result
  // Pooling and resizing of the last two axes; see graph/attributes/pooling.h.
  max_pool,  // (kernel, stride, padding, dilation per axis, unused) x: maximum, position in the
             // window
  max_pool_grad,  // gradient of the result, positions: adds the gradient at the positions
  max_pool_at,    // x, positions: elements at the positions; the gradient of max_pool_grad
  avg_pool,       // (kernel, stride, padding, dilation per axis, whether padding counts)
  avg_pool_grad,  // gradient of the result
  resample,       // (method) x, ratio of the sizes per axis
  resample_grad,  // (method) gradient of the result, ratios
  // (causal, masked, dropped, tf32, rows at once, scale, deterministic); see
  // graph/attributes/attention.h.
  attention,       // q, k, v, scale, mask, seed, offset, p: output, logsumexp of the scores
  attention_grad,  // (..., wanted) the same inputs, output, logsumexp, gradient: wanted gradients
                   // of q, k, v, mask
  // Recurrent layers over all steps of a sequence; see graph/attributes/recurrence.h.
  recurrent,  // x, weight, bias, projection, h, c: output, last h and c, values for the gradient
  recurrent_grad,  // weight, states, values kept, gradients of output, h, c: gradients of x and the
                   // first states
  mse_loss,        // (reduction)
  // (reduction, flags) x, labels or probabilities, weight, smoothing, ignored label: loss, largest
  // logit, log of the sum of exponentials relative to it, labels, total weight; see
  // graph/attributes/class_loss.h.
  cross_entropy,
  nll_loss,    // (reduction, flags) log-probabilities, then as cross_entropy: loss, labels, total
               // weight
  layer_norm,  // (axes): output, mean, reciprocal standard deviation
  // Batch norm (plan/expand/norm.cpp). `s` is the reciprocal standard deviation if the batch's own
  // statistics are used, else the variance.
  batch_stats,  // x, eps, running mean, running variance, momentum: mean, s, new running mean and
                // variance
  batch_norm,   // (own statistics, weight, bias) x, mean, s, eps, weight, bias
  batch_norm_grad,  // (own statistics, weight, wanted) gradient, x, mean, s, eps, weight: wanted
                    // gradients of x, weight, bias
  dropout,          // x, seed, offset, p
  normal,           // (sizes...) seed, offset
  scatter_rows,     // (rows): adds rows into a tensor of zeros; the gradient of gather
  // Indexing (plan/expand/index.cpp). `axes` has one bit for each indexed axis of the shape.
  index,         // (axes) x, integers...: elements at the broadcast indices, which may be negative
  index_sum,     // (axes) adds elements at the indices into zeros; the gradient of index
  index_put,     // (axes) x, value, integers...: x with the value written, row of the value at each
                 // place or -1
  take_along,    // (axis, 1): elements along an axis at integer indices
  gather_along,  // as take_along, but indices may cover only a part of the other axes
  add_along,  // (axis) or (axis, 1): adds elements at the indices into zeros; the gradient of both
  put_along,  // (axis) x, source, index: x with the source written, source element at each place or
              // -1
  select_rows,  // (axis): slices along an axis at integer indices [k]
  select_at,    // (axis) x, position: one slice; the axis stays, with size 1
  put_slice,  // (whole, then start, step and size per axis) x, value, positions...: x with a region
              // overwritten
  tril,       // x, diagonal
  triu,       // x, diagonal
  one_hot,    // (classes)
  true_positions,  // (count): positions at which a mask is true
  nonzero,         // (count, sizes...) mask, fill: positions at which the mask is true, per axis
  rows_at_true,    // (count) x, mask, fill: rows of x at which the mask is true
  rows_to_true,    // rows, mask: the inverse and the gradient of rows_at_true
  cumsum,          // (axis, reverse)
  fold,            // (axis, step): adds windows up at their positions; the gradient of unfold
  sort,            // (count, descending) along the last axis: values, positions
  // Optimizer updates of all parameters (plan/expand/optimizer.cpp): (number of parameters,
  // choices..., UpdateScaling). The choices are listed here.
  sgd,      // momentum, nesterov, decay, dampening, first step, maximize
  adam,     // decay, amsgrad, maximize
  rmsprop,  // decay, centered, momentum, maximize
  adagrad,  // decay, maximize
  lion,     // decay
  muon,     // nesterov, iterations, learning rates adjusted as for AdamW
  // Reductions over all elements of all inputs.
  any_nonfinite,  // 1 if an element is infinite or NaN, else 0
  total_norm,     // (bits of p)
  kCount,         // number of rows in the table; ids of user-defined operations follow
};

// Whether the operation may meet an index out of range. Its source location is then kept for the
// error message.
inline bool checks_indices(OpId op) {
  switch (op) {
    case OpId::gather:
    case OpId::cross_entropy:
    case OpId::nll_loss:
    case OpId::scatter_rows:
    case OpId::index:
    case OpId::index_sum:
    case OpId::index_put:
    case OpId::take_along:
    case OpId::gather_along:
    case OpId::add_along:
    case OpId::put_along:
    case OpId::select_rows:
    case OpId::select_at:
    case OpId::put_slice:
    case OpId::one_hot:
    case OpId::resample:
    case OpId::resample_grad:
    case OpId::rows_at_true:
    case OpId::rows_to_true:
      return true;
    default:
      return false;
  }
}
// Whether negative indices count from the end.
inline bool wraps_indices(OpId op) {
  return op == OpId::index || op == OpId::index_sum || op == OpId::index_put ||
         op == OpId::take_along;
}

inline bool is_scalar_op(OpId op) { return static_cast<int>(op) < kernel::kScalarOpCount; }
inline kernel::ScalarOp scalar_op(OpId op) { return static_cast<kernel::ScalarOp>(op); }

// Values that a gradient is computed from. Bits 0 to 29 are inputs; the others are the output and
// the auxiliary outputs of an operation with several results.
enum Saves : std::uint32_t {
  kSavesNothing = 0,
  kSavesInput0 = 1u << 0,
  kSavesInput1 = 1u << 1,
  kSavesInput2 = 1u << 2,
  kSavesOutput = 1u << 30,
  kSavesAuxiliary = 1u << 31,
};

// For each input of an operation, the values that its gradient is computed from. Inputs after the
// last entry use the last entry. A tape record saves only the values that the required gradients
// need, for instance only the frozen factor of a product.
struct SavesByInput {
  std::array<std::uint32_t, 4> by_input{};

  constexpr SavesByInput() = default;
  // All gradients need the same.
  constexpr SavesByInput(std::uint32_t all) : by_input{all, all, all, all} {}  // NOLINT
  constexpr SavesByInput(std::uint32_t first, std::uint32_t second, std::uint32_t others)
      : by_input{first, second, others, others} {}

  constexpr std::uint32_t of(std::size_t input) const {
    return by_input[input < by_input.size() ? input : by_input.size() - 1];
  }
  constexpr std::uint32_t any() const {
    return by_input[0] | by_input[1] | by_input[2] | by_input[3];
  }
};

// How an operation treats floating-point inputs in an Autocast scope (graph/record/autocast.h).
enum class AutocastRule : std::uint8_t {
  none,     // computes in their dtype
  product,  // converts f32, f16 and bf16 to the scope's dtype
  full,     // converts f16 and bf16 to f32
  widest,   // converts f32, f16 and bf16 to the widest dtype among the inputs
};

// A row of the table.
struct Op {
  OpId id;
  const char* name;
  SavesByInput saves = {};
  void (*vjp)(Vjp&) = nullptr;           // null if no gradient flows
  const FormulaText* formula = nullptr;  // texts of the value and gradients; null if there are none
  AutocastRule autocast = AutocastRule::none;
};
inline constexpr std::size_t kOps = static_cast<std::size_t>(OpId::kCount);
VOLTA_BACKEND_API extern const std::array<Op, kOps> op_table;
// The row of a user-defined operation (op_registry.cpp).
const Op& registered_op(OpId id);
inline const Op& op_info(OpId id) {
  const auto number = static_cast<std::size_t>(id);
  return number < kOps ? op_table[number] : registered_op(id);
}

// The parsed formula of an operation that has one.
const ParsedFormula& parsed_formula(OpId id);
// The texts of the formula with this name, which other formulas may call; null if there is none.
const FormulaText* formula_named(std::string_view name);
// Adds an operation for the rest of the process. Throws ArgumentError if a text is not a valid
// formula.
OpId register_formula(std::string name, std::string parameters, std::string value,
                      std::vector<std::string> gradients);

}  // namespace volta::graph
