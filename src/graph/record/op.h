// The operations of the graph. One id per operation; the table in op_table.cpp says what each one
// is.
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

namespace volta::plan {
class Lowering;
}

namespace volta::graph {

class Vjp;
struct FormulaText;
struct ParsedFormula;

enum class OpId : std::uint16_t {
// Scalar operations come first, in the order of kernel::ScalarOp.
#define VOLTA_SCALAR_OP(name, ...) name,
#include "kernel/scalar_ops.def"
#undef VOLTA_SCALAR_OP
  // Other primitives. Attributes in parentheses.
  cast,      // to the node's dtype
  constant,  // a number in every element; never pending
  iota,      // (axis, sizes...): the index along an axis
  philox,    // (sizes...) seed, offset: random words (i64) or uniforms (floats)
  reshape,   // (sizes...)
  permute,   // (order...)
  expand,    // (sizes...)
  shrink,    // (start..., size...)
  pad,       // (before..., size...): value in the second input, a constant
  stride,    // (start..., step..., size...): steps may be negative
  unfold,    // (axis, size, step): windows along an axis, their elements a new last axis
  sum,       // (axes...): axes removed
  prod,      // (axes...)
  max,       // (axes...)
  min,       // (axes...)
  argmax,    // (axes...)
  argmin,    // (axes...)
  gather,    // rows of [n, ...] at integer indices of any shape
  matmul,    // (transpose_a, transpose_b, tf32): rank 2, or rank 3 with equal batches
  output,    // (number): one result of an operation with several
  to_device,
  function,         // a user's Function: the record of a call
  function_output,  // (number): leads the gradient of one of its outputs to it
// Composed: one recorded node, expanded into primitives when a plan is built. Formulas first.
#define VOLTA_FORMULA(name, ...) name,
#define VOLTA_GRADIENT(...)
#include "graph/formulas.def"
#undef VOLTA_GRADIENT
#undef VOLTA_FORMULA
  formula_grad,  // (operation, which of its tensors): gradient, then what the formula uses
  mean,          // (axes...)
  sum_to,        // sums a broadcast gradient back to the node's shape
  max_along,     // (axis): largest element, position of the first one
  min_along,     // (axis)
  var,           // (bits of the correction, axes...)
  std,           // (bits of the correction, axes...)
  norm,          // (bits of p, axes...) x; p where it is neither 0, 1, 2 nor infinite
  logsumexp,     // (axes...)
  concat,        // (axis): one operand after the other
  softmax,       // (axis)
  log_softmax,   // (axis)
  linear,        // (tf32)
  // (stride, padding, dilation by axis, groups, tf32), images [n, c, h, w]; graph/convolution.h
  conv,              // x, weight, bias
  conv_input_grad,   // gradient of the result, weight, bias: also a transposed convolution
  conv_weight_grad,  // x, gradient of the result
  // Pooling and resizing of the last two axes; graph/pooling.h
  max_pool,       // (kernel, stride, padding, dilation by axis, -): largest, where in the window
  max_pool_grad,  // gradient of the result, places: adds it up there
  max_pool_at,    // x, places: what is there; the gradient of max_pool_grad
  avg_pool,       // (kernel, stride, padding, dilation by axis, whether padding counts)
  avg_pool_grad,  // gradient of the result
  resample,       // (way) x, ratios of the sizes by axis
  resample_grad,  // (way) gradient of the result, ratios
  // (causal, masked, dropped, tf32, rows at once); graph/attention.h
  attention,       // q, k, v, scale, mask, seed, offset, p: output, logs of sums of exponentials
  attention_grad,  // (..., wanted) the same, output, logs, gradient: those wanted of q, k, v, mask
  // Steps of a sequence; graph/recurrence.h
  recurrent,  // (cell, reverse, bias, states, tf32) x, weight, bias, h, c: the output, the last
              // h and c, what the gradient needs
  recurrent_grad,  // (cell, reverse, states, which gradients, tf32) weight, states, what was kept,
                   // gradients of the output, h, c: those of x, the first h, c or the product
  mse_loss,        // (reduction)
  // (reduction, which) x, labels or probabilities, weight, smoothing, label that is ignored: loss,
  // largest logit, log of the sum of exponentials without it, labels, total; graph/class_loss.h
  cross_entropy,
  nll_loss,    // (reduction, which) the same of log-probabilities: loss, labels, total
  layer_norm,  // (axes): output, mean, reciprocal deviation
  // Batch norm (expand_norm.cpp); of one that normalises by the batch, s below is the reciprocal
  // deviation, else the variance.
  batch_stats,      // x, eps, running mean, variance, momentum: mean, s, the running ones anew
  batch_norm,       // (by the batch, weight, bias) x, mean, s, eps, weight, bias
  batch_norm_grad,  // (by the batch, weight, wanted) gradient, x, mean, s, eps, weight: those
                    // wanted
                    // of x, weight, bias
  dropout,          // x, seed, offset, p
  normal,           // (sizes...) seed, offset
  scatter_rows,     // (rows): adds rows into zeros; the gradient of gather
  // Indexing (expand_index.cpp). `which` axes of a shape: a bit each.
  index,           // (which) x, integers...: elements at broadcast integers, negative ones too
  index_sum,       // (which) adds into zeros there; the gradient of index
  index_put,       // (which) x, value, integers...: x with the value there; whose value it is
  take_along,      // (axis): elements along an axis at integer indices
  gather_along,    // the same, of a part of the other axes
  add_along,       // (axis): adds into zeros there; the gradient of both
  put_along,       // (axis) x, source, index: x with the source there; whose value it is
  select_rows,     // (axis): parts along an axis at integers [k]
  select_at,       // (axis) x, position: one part, the axis kept as 1
  put_slice,       // (whole, start, step, size...) x, value, positions...: x with a region written
  tril,            // x, diagonal
  triu,            // x, diagonal
  one_hot,         // (classes)
  true_positions,  // (count): where a mask is true
  nonzero,         // (count, sizes...) mask, fill: where it is true, by axis
  rows_at_true,    // (count) x, mask, fill: rows where a mask is true
  rows_to_true,    // rows, mask: the inverse, and its gradient
  cumsum,          // (axis, reverse)
  fold,            // (axis, step): windows added up where they lay; the gradient of unfold
  sort,            // (count, descending) along the last axis: values, positions
  // Updates of all parameters (expand_optimizer.cpp): (parameters, choices..., under GradScaler)
  sgd,      // momentum, nesterov, decay, dampening, first step, maximize
  adam,     // decay, amsgrad, maximize
  rmsprop,  // decay, centered, momentum, maximize
  adagrad,  // decay, maximize
  lion,     // decay
  muon,     // nesterov, iterations, learning rates as AdamW's
  // Of all elements of all inputs.
  any_nonfinite,  // 1 if one is infinite or NaN, else 0
  total_norm,     // (bits of p)
  kCount,         // of the table; operations that users add follow
};

// Whether it may meet an index out of range: its place is kept for the message.
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

// What a tape record keeps for its gradient: bits 0..29 are inputs, then the output and the
// auxiliary outputs of an operation with several.
enum Saves : std::uint32_t {
  kSavesNothing = 0,
  kSavesInput0 = 1u << 0,
  kSavesInput1 = 1u << 1,
  kSavesInput2 = 1u << 2,
  kSavesOutput = 1u << 30,
  kSavesAuxiliary = 1u << 31,
};

// What an operation does with its floats in an Autocast scope (graph/autocast.h).
enum class AutocastRule : std::uint8_t {
  none,     // computes in the dtype they have
  product,  // takes f32 and halves as the scope's dtype
  full,     // takes halves as f32
  widest,   // takes f32 and halves as the widest of them
};

// A row of the table.
struct Op {
  OpId id;
  const char* name;
  std::uint32_t saves = kSavesNothing;
  void (*vjp)(Vjp&) = nullptr;               // null: no gradient flows
  void (*lower)(plan::Lowering&) = nullptr;  // null: the planner knows the primitive
  const FormulaText* formula = nullptr;      // value and gradient as texts, where it has them
  AutocastRule autocast = AutocastRule::none;
};
inline constexpr std::size_t kOps = static_cast<std::size_t>(OpId::kCount);
VOLTA_BACKEND_API extern const std::array<Op, kOps> op_table;
// A user's operation (op_registry.cpp).
const Op& registered_op(OpId id);
inline const Op& op_info(OpId id) {
  const auto number = static_cast<std::size_t>(id);
  return number < kOps ? op_table[number] : registered_op(id);
}

// The formula of an operation that has one, parsed.
const ParsedFormula& parsed_formula(OpId id);
// The texts of an operation that is a formula, for others that call it; null if there is none.
const FormulaText* formula_named(std::string_view name);
// Adds an operation for the rest of the process. Throws ArgumentError if a text is wrong.
OpId register_formula(std::string name, std::string parameters, std::string value,
                      std::vector<std::string> gradients);

}  // namespace volta::graph
