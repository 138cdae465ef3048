// Elementwise operations with parameters: activations, bounds, and operations of three operands.
#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <span>

#include "core/convert.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::OpId;

namespace {

// An activation of a floating-point tensor, with numbers as parameters.
Tensor activation(const char* name, OpId op, std::initializer_list<Operand> arguments) {
  graph::require_floating(name, arguments.begin()->tensor());
  return graph::apply_formula(op, std::span(arguments.begin(), arguments.size()), name);
}

struct Named {
  const char* what;
  const Operand& operand;
};

void require_tensors(const char* name, std::initializer_list<Named> operands) {
  for (const Named& named : operands) {
    if (!named.operand.is_scalar())
      graph::require_defined(name, named.operand.tensor(), named.what);
  }
}

void require_numbers(const char* name, std::span<const Operand> arguments) {
  if (graph::result_dtype(arguments) == DType::boolean)
    graph::throw_dtype(name, DType::boolean, "numbers");
}

}  // namespace

Tensor leaky_relu(const Tensor& x, double slope, SourceLocation place) {
  return activation("leaky_relu", OpId::leaky_relu, {{x, place}, {slope, place}});
}
Tensor elu(const Tensor& x, double alpha, SourceLocation place) {
  return activation("elu", OpId::elu, {{x, place}, {alpha, place}});
}
Tensor gelu(const Tensor& x, GeluOptions options, SourceLocation place) {
  return options.tanh ? activation("gelu", OpId::gelu_tanh, {{x, place}}) : gelu(x, place);
}
Tensor softplus(const Tensor& x, double beta, double threshold, SourceLocation place) {
  return activation("softplus", OpId::softplus, {{x, place}, {beta, place}, {threshold, place}});
}
Tensor swish(const Tensor& x, SourceLocation place) {
  graph::require_floating("swish", x);
  return silu(x, place);
}

namespace {
// Beside f16 or bf16, a numeric bound is rounded to that dtype, as in PyTorch, so that an element
// equal to it is at the bound.
Operand as_bound(const Operand& bound, const Tensor& x) {
  if (!bound.is_scalar() || graph::without_halves(x.dtype()) == x.dtype()) return bound;
  return {nearest(bound.scalar().value(), x.dtype()), bound.place()};
}
}  // namespace

Tensor clamp(const Tensor& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
             SourceLocation place) {
  graph::require_defined("clamp", x);
  if (low) require_tensors("clamp", {{"the lower bound", *low}});
  if (high) require_tensors("clamp", {{"the upper bound", *high}});
  const Operand operand(x, place);
  if (low && high) {
    const bool tensors = !low->is_scalar() || !high->is_scalar();
    const Operand arguments[] = {
        operand, as_bound(*low, x), as_bound(*high, x), {Scalar(tensors), place}};
    return graph::apply_formula(OpId::clamp, arguments);
  }
  if (!low && !high) throw ArgumentError("clamp: no bound is given");
  const Operand arguments[] = {operand, as_bound(low ? *low : *high, x)};
  if (arguments[1].is_scalar())
    return graph::apply_formula(low ? OpId::clamp_min : OpId::clamp_max, arguments, "clamp");
  // With a single tensor as bound, clamp is an elementwise maximum or minimum.
  broadcast_shapes("clamp", x.shape(), arguments[1].tensor().shape());
  return graph::binary(low ? OpId::maximum : OpId::minimum, operand, arguments[1]);
}

Tensor mulacc(const Operand& a, const Operand& b, const Operand& c) {
  require_tensors("mulacc", {{"the first factor", a}, {"the second factor", b}, {"the addend", c}});
  const Operand arguments[] = {a, b, c};
  require_numbers("mulacc", arguments);
  return graph::apply_formula(OpId::mulacc, arguments);
}

Tensor lerp(const Operand& a, const Operand& b, const Operand& weight) {
  require_tensors("lerp", {{"the start", a}, {"the end", b}, {"the weight", weight}});
  const Operand arguments[] = {a, b, weight};
  for (const Operand& argument : arguments) {
    if (!argument.is_scalar()) graph::require_floating("lerp", argument.tensor());
  }
  return graph::apply_formula(OpId::lerp, arguments);
}

Tensor addcmul(const Tensor& x, const Operand& a, const Operand& b, Scalar value,
               SourceLocation place) {
  const Operand operand(x, place);
  require_tensors("addcmul",
                  {{"the input", operand}, {"the first factor", a}, {"the second factor", b}});
  const Operand arguments[] = {operand, a, b, {value, place}};
  const std::span operands(arguments, 3);
  require_numbers("addcmul", operands);
  const DType dtype = graph::result_dtype(operands);
  if (!is_floating(dtype) && value.is_floating()) {
    throw DTypeError(fmt::format("addcmul: value {} is no integer, the operands are {}",
                                 value.value(), name_of(dtype)));
  }
  return graph::apply_formula(OpId::addcmul, arguments);
}

Tensor addcdiv(const Tensor& x, const Operand& a, const Operand& b, Scalar value,
               SourceLocation place) {
  const Operand operand(x, place);
  require_tensors("addcdiv", {{"the input", operand}, {"the dividend", a}, {"the divisor", b}});
  const Operand arguments[] = {operand, a, b, {value, place}};
  // Integers are not divided here, as in PyTorch. If both operands are numbers, the dtype of the
  // input decides.
  const bool numbers = a.is_scalar() && b.is_scalar();
  const DType dtype =
      graph::result_dtype(std::span(arguments).subspan(numbers ? 0 : 1, numbers ? 1 : 2));
  if (!is_floating(dtype)) graph::throw_dtype("addcdiv", dtype, "a floating-point tensor");
  return graph::apply_formula(OpId::addcdiv, arguments);
}

}  // namespace volta
