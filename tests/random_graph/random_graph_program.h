// A random program: statements over numbered tensors, run for several rounds with new data. It is
// generated (random_graph_generator), evaluated in double precision (random_graph_evaluator), run
// on a device and compared (random_graph_runner), and reduced when it fails (random_graph_shrink).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volta/dtype.h"

namespace volta::random_graph {

using Dims = std::vector<std::int64_t>;

enum class Op : std::uint8_t {
  // New tensors.
  data,
  full,
  arange,
  rand,
  uniform,
  randn,
  randint,
  // One operand.
  neg,
  abs,
  sign,
  exp,
  expm1,
  log,
  log1p,
  sqrt,
  rsqrt,
  square,
  reciprocal,
  sin,
  cos,
  tanh,
  sigmoid,
  erf,
  floor,
  relu,
  gelu,
  silu,
  logical_not,
  // Two operands, one of which may be a number.
  add,
  sub,
  mul,
  div,
  pow,
  maximum,
  minimum,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  logical_and,
  logical_or,
  where,
  // Copies and views.
  cast,
  clone,
  detach,
  alias,
  reshape,
  permute,
  expand,
  squeeze,
  unsqueeze,
  narrow,
  pad,
  stride,
  // Reductions; no axes means all of them.
  sum,
  mean,
  max,
  min,
  prod,
  argmax,
  argmin,
  softmax,
  log_softmax,
  // Along an axis: running sums, sorting.
  cumsum,
  sort,
  argsort,
  topk,
  // Products, indexing, networks.
  matmul,
  concat,
  linear,
  embedding,
  index_add,
  take_along_axis,
  layer_norm,
  dropout,
  mse_loss,
  cross_entropy,
  // Operations in place follow.
  add_to,
  sub_from,
  mul_by,
  div_by,
  fill,
  copy,
  assign,
  // Gradients and updates.
  backward,
  grad,
  zero_grad,
  sgd_step,
  adam_step,
  // Lifetimes and reads.
  drop,
  look,
  item,
  eval,
  submit,
};

constexpr bool is_unary(Op op) { return op >= Op::neg && op <= Op::logical_not; }
constexpr bool is_binary(Op op) { return op >= Op::add && op <= Op::logical_or; }
constexpr bool is_comparison(Op op) { return op >= Op::lt && op <= Op::ne; }
constexpr bool is_in_place(Op op) { return op >= Op::add_to && op <= Op::assign; }
constexpr bool is_random(Op op) {
  return (op >= Op::rand && op <= Op::randint) || op == Op::dropout;
}

// The contents of a `data` tensor.
enum class Fill : std::uint8_t { numbers, positive, integers, indices };

// A number in the program. A varying one differs in every round, so that it is an argument of the
// plan.
struct Number {
  double value = 0;
  bool integer = false;
  bool varies = false;
  double in_round(int round) const {
    if (!varies) return value;
    return integer ? value + round : value + 0.0625 * round;
  }
};

struct Statement {
  Op op = Op::data;
  int out = -1;         // the tensor that it creates
  int second = -1;      // for sort and topk: the tensor of positions, if they are kept
  std::vector<int> in;  // operands, beginning with the one changed in place; -1 stands for a number
  Dims dims;  // shape, axes, order, start and length, or amounts, depending on the operation
  DType dtype = DType::f32;
  Number number;      // an operand, a limit, a probability, or a rate
  bool flag = false;  // keepdim, requires_grad, retain_graph, decay, descending, largest
  int choice = 0;     // the reduction of a loss
  Fill fill = Fill::numbers;
  bool no_grad = false;     // recorded under NoGrad
  bool persistent = false;  // created before the first round and alive in all rounds
};

// The end of a round.
enum class RoundEnd : std::uint8_t { look, submit, nothing };

struct Program {
  std::uint64_t seed = 0;
  std::vector<Statement> statements;
  int rounds = 4;
  RoundEnd end = RoundEnd::look;  // values are always read at the end of the last round
  bool drops_at_end = true;  // handles are dropped at the end of a round, otherwise when the next
                             // round replaces them
};

const char* name_of(Op op);
std::string to_string(const Statement& statement);
// Returns the program as C++-like lines.
std::string to_string(const Program& program);

}  // namespace volta::random_graph
