// Scalar operations: promotion, broadcasting, operators.
#include <fmt/format.h>

#include <optional>

#include "backend/registry.h"
#include "core/convert.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace graph {
namespace {

// The kind of a dtype: booleans, integers, floats.
int kind_of(DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1; }
DType unless_higher(DType dtype, DType other) {
  return kind_of(other) > kind_of(dtype) ? other : dtype;
}
DType dtype_beside(DType tensor, Scalar number) {
  return unless_higher(tensor, natural_dtype(number));
}
DType dtype_together(const Node& a, const Node& b) {
  if (a.dtype == b.dtype) return a.dtype;
  if ((a.shape.rank() == 0) == (b.shape.rank() == 0)) return promote(a.dtype, b.dtype);
  return a.shape.rank() == 0 ? unless_higher(b.dtype, a.dtype) : unless_higher(a.dtype, b.dtype);
}

}  // namespace

DType natural_dtype(Scalar number) {
  return number.is_floating() ? DType::f32 : number.is_boolean() ? DType::boolean : DType::i64;
}

DType result_dtype(std::span<const Operand> operands) {
  std::optional<DType> arrays, points, numbers;
  for (const Operand& operand : operands) {
    const bool array = !operand.is_scalar() && operand.tensor().rank() > 0;
    std::optional<DType>& group = operand.is_scalar() ? numbers : array ? arrays : points;
    const DType dtype =
        operand.is_scalar() ? natural_dtype(operand.scalar()) : operand.tensor().dtype();
    group = group ? promote(*group, dtype) : dtype;
  }
  std::optional<DType> together = arrays;
  for (const std::optional<DType>& group : {points, numbers}) {
    if (group) together = together ? unless_higher(*together, *group) : *group;
  }
  return together.value_or(DType::f32);
}

namespace {

bool compares(OpId op) {
  return op == OpId::lt || op == OpId::le || op == OpId::eq || op == OpId::ne;
}
bool is_logical(OpId op) {
  return op == OpId::logical_and || op == OpId::logical_or || op == OpId::logical_xor;
}
// Whether integers are converted to floats, since the result is not an integer.
bool needs_floats(OpId op) { return op == OpId::div || op == OpId::atan2; }
bool divides_integers(OpId op) {
  return op == OpId::fmod || op == OpId::mod || op == OpId::floor_div;
}

// Whether the operation compares its operands or returns one of them. Beside f16 or bf16, a number
// is then rounded to that dtype, as in PyTorch, so that it equals the elements that round to the
// same value.
bool chooses(OpId op) { return compares(op) || op == OpId::maximum || op == OpId::minimum; }

const char* shown_name(OpId op) { return op_info(op).name; }

// Arithmetic on booleans, as in PyTorch.
OpId among_bools(OpId op) {
  switch (op) {
    case OpId::add:
    case OpId::maximum:
      return OpId::logical_or;
    case OpId::mul:
    case OpId::minimum:
      return OpId::logical_and;
    case OpId::sub:
    case OpId::fmod:
    case OpId::mod:
    case OpId::floor_div:
    case OpId::pow:
      throw_dtype(shown_name(op), DType::boolean, "numbers");
    default:
      return op;
  }
}

// Throws for a number that is invalid with every integer operand.
void require_integer_operand(OpId op, DType dtype, Scalar number) {
  if (divides_integers(op) && number.integer() == 0)
    throw ArgumentError(fmt::format("{}: {} divided by zero", shown_name(op), name_of(dtype)));
  if (op == OpId::pow && number.integer() < 0) {
    throw ArgumentError(
        fmt::format("pow: {} to the power of {} is no integer", name_of(dtype), number.integer()));
  }
}

// Both operands of a binary operation, in one dtype and on one device: the caller's tensors, or
// conversions of them.
struct Sides {
  const Tensor* side[2] = {nullptr, nullptr};
  Tensor made[2];
  void replace(int i, Tensor tensor) {
    made[i] = std::move(tensor);
    side[i] = &made[i];
  }
};

// Whether a scalar tensor stays in f32 beside an array of f16 or bf16, as a number does.
bool is_number_beside(const Node& side, const Node& other, OpId op, DType dtype) {
  return without_halves(dtype) != dtype && !chooses(op) && is_floating(side.dtype) &&
         side.shape.rank() == 0 && other.shape.rank() > 0;
}

// Prepares both operands and returns their common dtype. A scalar takes the dtype of an array
// beside it.
DType prepare(OpId op, const Operand& a, const Operand& b, Sides& sides) {
  const char* name = shown_name(op);
  if (!a.is_scalar()) require_defined(name, a.tensor(), "the left operand");
  if (!b.is_scalar()) require_defined(name, b.tensor(), "the right operand");
  DType dtype = DType::f32;
  if (!a.is_scalar() && !b.is_scalar()) {
    sides.side[0] = &a.tensor();
    sides.side[1] = &b.tensor();
    const Node *left = node_of(a.tensor()), *right = node_of(b.tensor());
    if (left->entry == right->entry && left->dtype == right->dtype && is_floating(left->dtype))
        [[likely]] {
      return left->dtype;
    }
    if (left->entry != right->entry) {
      Tensor both[2] = {a.tensor(), b.tensor()};
      agree_on_device(name, both, a.place());
      for (int i = 0; i < 2; ++i) sides.replace(i, std::move(both[i]));
    }
    dtype = dtype_together(*node_of(*sides.side[0]), *node_of(*sides.side[1]));
  } else if (a.is_scalar() && b.is_scalar()) {
    throw ArgumentError(fmt::format("{}: no operand is a tensor", name));
  } else {
    const Tensor& tensor = a.is_scalar() ? b.tensor() : a.tensor();
    Scalar scalar = a.is_scalar() ? a.scalar() : b.scalar();
    dtype = dtype_beside(node_of(tensor)->dtype, scalar);
    if (needs_floats(op) && !is_floating(dtype)) dtype = DType::f32;
    // The result is boolean, so the number need not fit the tensor's dtype.
    if ((compares(op) || is_logical(op)) && !fits(scalar, dtype)) dtype = DType::i64;
    if (!is_floating(dtype) && b.is_scalar()) require_integer_operand(op, dtype, scalar);
    if (without_halves(dtype) != dtype && chooses(op)) scalar = nearest(scalar.value(), dtype);
    sides.side[a.is_scalar() ? 1 : 0] = &tensor;
    sides.replace(a.is_scalar() ? 0 : 1, operand_number(name, scalar, dtype, entry_of(tensor)));
  }
  if (needs_floats(op) && !is_floating(dtype)) dtype = DType::f32;
  for (int i = 0; i < 2; ++i) {
    const Node &side = *node_of(*sides.side[i]), &other = *node_of(*sides.side[1 - i]);
    if (side.dtype == dtype) continue;
    const DType wanted = is_number_beside(side, other, op, dtype) ? without_halves(dtype) : dtype;
    sides.replace(i, sides.side[i]->to(wanted, a.place()));
  }
  return dtype;
}

// Folds two constants into one, so that, for example, the scale of a mean's gradient needs no node.
Tensor fold(OpId op, const Borrowed sides[2], const Shape& shape, DType dtype) {
  const Node *a = sides[0].node(), *b = sides[1].node();
  if (grad_mode() && (sides[0].wants_gradient() || sides[1].wants_gradient())) return {};
  if (a->state.load(std::memory_order_acquire) != NodeState::Constant ||
      b->state.load(std::memory_order_acquire) != NodeState::Constant || !is_floating(dtype)) {
    return {};
  }
  // Rounds as a kernel does, which computes f16 and bf16 in f32.
  const DType inner = without_halves(dtype);
  const double left = nearest(a->value, inner), right = nearest(b->value, inner);
  double result = 0;
  switch (op) {
    case OpId::add:
      result = left + right;
      break;
    case OpId::sub:
      result = left - right;
      break;
    case OpId::mul:
      result = left * right;
      break;
    case OpId::div:
      result = left / right;
      break;
    default:
      return {};
  }
  return filled(shape, nearest(result, inner), dtype, *a->entry);
}

}  // namespace

Tensor binary(OpId op, const Operand& a, const Operand& b) {
  if (in_autocast()) [[unlikely]] {
    // Only tensors are converted here; a number must not be rounded to f16 or bf16.
    const Tensor none, &left = a.is_scalar() ? none : a.tensor(),
                       &right = b.is_scalar() ? none : b.tensor();
    // A number divided by a tensor follows the rule of reciprocal, as in PyTorch.
    const OpId ruled = op == OpId::div && a.is_scalar() ? OpId::reciprocal : op;
    if (const auto wanted = autocast_dtype(ruled, {&left, &right})) {
      const Tensor cast[] = {autocast(left, *wanted, a.place()),
                             autocast(right, *wanted, a.place())};
      return binary(op, a.is_scalar() ? a : Operand(cast[0], a.place()),
                    b.is_scalar() ? b : Operand(cast[1], b.place()));
    }
  }
  Sides prepared;
  const DType operands = prepare(op, a, b, prepared);
  const Borrowed sides[2] = {*prepared.side[0], *prepared.side[1]};
  if (operands == DType::boolean) op = among_bools(op);
  const DType dtype = compares(op) || is_logical(op) ? DType::boolean : operands;
  const Shape& left = sides[0].node()->shape;
  const Shape& right = sides[1].node()->shape;
  if (left == right || left.rank() == 0 || right.rank() == 0) {
    if (Tensor folded = fold(op, sides, left.rank() == 0 ? right : left, operands);
        folded.defined())
      return folded;
  }
  if (left == right || right.rank() == 0) return apply(op, {sides, 2}, {}, left, dtype, a.place());
  return apply(op, {sides, 2}, {}, broadcast_shapes(shown_name(op), left, right), dtype, a.place());
}

namespace {

Tensor unary_float(OpId op, const Tensor& x, SourceLocation place) {
  require_defined(op_info(op).name, x);
  const Node& node = *node_of(x);
  if (!is_floating(node.dtype)) return unary_float(op, x.to(DType::f32, place), place);
  return apply(op, {x}, {}, node.shape, node.dtype, place);
}

Tensor unary_any(OpId op, const Tensor& x, SourceLocation place) {
  require_defined(op_info(op).name, x);
  const Node& node = *node_of(x);
  if (node.dtype == DType::boolean) throw_dtype(op_info(op).name, node.dtype, "numbers");
  return apply(op, {x}, {}, node.shape, node.dtype, place);
}

// An activation, which accepts only floats, as in PyTorch.
Tensor activation(OpId op, const Tensor& x, SourceLocation place) {
  require_floating(op_info(op).name, x);
  return apply(op, {x}, {}, node_of(x)->shape, node_of(x)->dtype, place);
}

// Rounding functions: integers are returned unchanged.
Tensor to_whole(OpId op, const Tensor& x, SourceLocation place) {
  require_defined(op_info(op).name, x);
  if (!is_floating(x.dtype())) return x.clone(place);
  return apply(op, {x}, {}, x.shape(), x.dtype(), place);
}

// Predicates such as isnan, which are false for integers.
Tensor of_floats(OpId op, const Tensor& x, SourceLocation place) {
  require_defined(op_info(op).name, x);
  if (!is_floating(x.dtype())) return filled(x.shape(), false, DType::boolean, x.device());
  return apply(op, {x}, {}, x.shape(), DType::boolean, place);
}

Tensor truth_of(OpId op, const Tensor& x, SourceLocation place) {
  require_defined(op_info(op).name, x);
  return apply(op, {x}, {}, x.shape(), DType::boolean, place);
}

}  // namespace
}  // namespace graph

// Defines the functions of the table, by the kind of argument in the column `function` of
// elementwise.def.
#define VOLTA_UNARY(name, by) \
  Tensor name(const Tensor& x, SourceLocation place) { return graph::by(OpId::name, x, place); }
#define VOLTA_BINARY(name) \
  Tensor name(const Operand& a, const Operand& b) { return graph::binary(OpId::name, a, b); }
#define VOLTA_NOTHING(name)
#define VOLTA_DEFINE_numbers(name) VOLTA_UNARY(name, unary_any)
#define VOLTA_DEFINE_floats(name) VOLTA_UNARY(name, unary_float)
#define VOLTA_DEFINE_activation(name) VOLTA_UNARY(name, activation)
#define VOLTA_DEFINE_whole(name) VOLTA_UNARY(name, to_whole)
#define VOLTA_DEFINE_test(name) VOLTA_UNARY(name, of_floats)
#define VOLTA_DEFINE_truth(name) VOLTA_UNARY(name, truth_of)
#define VOLTA_DEFINE_binary(name) VOLTA_BINARY(name)
#define VOLTA_DEFINE_arithmetic(name) VOLTA_BINARY(name)
#define VOLTA_DEFINE_exchanged(name)
#define VOLTA_DEFINE_none(name)
#define VOLTA_DEFINE_written(parameters) VOLTA_NOTHING
#define VOLTA_DEFINE_free(parameters) VOLTA_NOTHING
#define VOLTA_ELEMENTWISE(name, function, ...) VOLTA_DEFINE_##function(name)
#include "graph/record/elementwise.def"

namespace {
// Greater is less with its operands exchanged. The operands are checked first, so that errors name
// the function that the user called.
Tensor exchanged(const char* name, OpId op, const Operand& a, const Operand& b) {
  if (!a.is_scalar()) graph::require_defined(name, a.tensor(), "the left operand");
  if (!b.is_scalar()) graph::require_defined(name, b.tensor(), "the right operand");
  if (!a.is_scalar() && !b.is_scalar())
    broadcast_shapes(name, a.tensor().shape(), b.tensor().shape());
  if (a.is_scalar() && b.is_scalar())
    throw ArgumentError(fmt::format("{}: no operand is a tensor", name));
  for (const Operand* side : {&a, &b}) {
    if (side->is_scalar() && !side->scalar().is_floating())
      require_fits(name, side->scalar(), DType::i64);
  }
  return graph::binary(op, b, a);
}
}  // namespace

Tensor gt(const Operand& a, const Operand& b) { return exchanged("gt", OpId::lt, a, b); }
Tensor ge(const Operand& a, const Operand& b) { return exchanged("ge", OpId::le, a, b); }

Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
Tensor operator%(const Operand& a, const Operand& b) { return mod(a, b); }
Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
Tensor operator-(const Tensor& a) { return neg(a); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  graph::require_defined("where", condition, "the condition");
  if (condition.dtype() != DType::boolean)
    graph::throw_dtype("where", condition.dtype(), "a bool condition");
  if (!a.is_scalar()) graph::require_defined("where", a.tensor(), "the first choice");
  if (!b.is_scalar()) graph::require_defined("where", b.tensor(), "the second choice");
  const SourceLocation place = a.place();
  const DType dtype = graph::result_dtype({{a, b}});
  const auto side = [&](const Operand& operand) {
    if (operand.is_scalar())
      return graph::operand_number("where", operand.scalar(), dtype, graph::entry_of(condition));
    return operand.tensor().dtype() == dtype ? operand.tensor() : operand.tensor().to(dtype, place);
  };
  Tensor inputs[3] = {condition, side(a), side(b)};
  graph::agree_on_device("where", inputs, place);
  const Shape shape = broadcast_shapes(
      "where", inputs[0].shape(), broadcast_shapes("where", inputs[1].shape(), inputs[2].shape()));
  return apply(OpId::where, inputs, {}, shape, dtype, place);
}

}  // namespace volta
