// Elementwise operations with parameters: activations, bounds, and those of three operands.
#include <fmt/format.h>

#include <initializer_list>
#include <optional>
#include <span>

#include "graph/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::OpId;

namespace {

// An activation: its tensor of floats, then the numbers that shape it.
Tensor activation(OpId op, std::initializer_list<Operand> arguments) {
  graph::require_floating(graph::op_info(op).name, arguments.begin()->tensor());
  return graph::apply_formula(op, std::span(arguments.begin(), arguments.size()));
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

// The dtype of the operands together; of numbers alone, f32.
DType dtype_of_all(std::initializer_list<Named> operands) {
  std::optional<DType> dtype;
  for (const Named& named : operands) {
    if (named.operand.is_scalar()) continue;
    const DType own = named.operand.tensor().dtype();
    dtype = dtype ? promote(*dtype, own) : own;
  }
  return dtype.value_or(DType::f32);
}

}  // namespace

Tensor leaky_relu(const Tensor& x, double slope, Place place) {
  return activation(OpId::leaky_relu, {{x, place}, {slope, place}});
}
Tensor elu(const Tensor& x, double alpha, Place place) {
  return activation(OpId::elu, {{x, place}, {alpha, place}});
}
Tensor gelu(const Tensor& x, GeluOptions options, Place place) {
  return options.tanh ? activation(OpId::gelu_tanh, {{x, place}}) : gelu(x, place);
}
Tensor softplus(const Tensor& x, double beta, double threshold, Place place) {
  return activation(OpId::softplus, {{x, place}, {beta, place}, {threshold, place}});
}
Tensor mish(const Tensor& x, Place place) { return activation(OpId::mish, {{x, place}}); }
Tensor hardswish(const Tensor& x, Place place) { return activation(OpId::hardswish, {{x, place}}); }
Tensor swish(const Tensor& x, Place place) { return silu(x, place); }

Tensor clamp(const Tensor& x, const std::optional<Operand>& low, const std::optional<Operand>& high,
             Place place) {
  graph::require_defined("clamp", x);
  if (low) require_tensors("clamp", {{"the lower bound", *low}});
  if (high) require_tensors("clamp", {{"the upper bound", *high}});
  const Operand operand(x, place);
  if (low && high) {
    const Operand arguments[] = {operand, *low, *high};
    return graph::apply_formula(OpId::clamp, arguments);
  }
  if (!low && !high) throw ArgumentError("clamp: no bound is given");
  const Operand arguments[] = {operand, low ? *low : *high};
  return graph::apply_formula(low ? OpId::clamp_min : OpId::clamp_max, arguments);
}

Tensor mulacc(const Operand& a, const Operand& b, const Operand& c) {
  const std::initializer_list<Named> operands = {
      {"the first factor", a}, {"the second factor", b}, {"the addend", c}};
  require_tensors("mulacc", operands);
  if (dtype_of_all(operands) == DType::boolean)
    graph::throw_dtype("mulacc", DType::boolean, "numbers");
  const Operand arguments[] = {a, b, c};
  return graph::apply_formula(OpId::mulacc, arguments);
}

Tensor lerp(const Operand& a, const Operand& b, const Operand& weight) {
  const std::initializer_list<Named> operands = {
      {"the start", a}, {"the end", b}, {"the weight", weight}};
  require_tensors("lerp", operands);
  if (const DType dtype = dtype_of_all(operands); !is_floating(dtype))
    graph::throw_dtype("lerp", dtype, "a floating-point tensor");
  const Operand arguments[] = {a, b, weight};
  return graph::apply_formula(OpId::lerp, arguments);
}

Tensor addcmul(const Tensor& x, const Operand& a, const Operand& b, Scalar value, Place place) {
  const Operand operand(x, place);
  const std::initializer_list<Named> operands = {
      {"the input", operand}, {"the first factor", a}, {"the second factor", b}};
  require_tensors("addcmul", operands);
  const DType dtype = dtype_of_all(operands);
  if (dtype == DType::boolean) graph::throw_dtype("addcmul", dtype, "numbers");
  if (!is_floating(dtype) && value.is_floating()) {
    throw DTypeError(fmt::format("addcmul: value {} is no integer, the tensors are {}",
                                 value.value(), name_of(dtype)));
  }
  const Operand arguments[] = {operand, a, b, {value, place}};
  return graph::apply_formula(OpId::addcmul, arguments);
}

Tensor addcdiv(const Tensor& x, const Operand& a, const Operand& b, Scalar value, Place place) {
  const Operand operand(x, place);
  require_tensors("addcdiv", {{"the input", operand}, {"the dividend", a}, {"the divisor", b}});
  if (const DType dtype = dtype_of_all({{"", a}, {"", b}}); !is_floating(dtype))
    graph::throw_dtype("addcdiv", dtype, "a floating-point tensor");
  const Operand arguments[] = {operand, a, b, {value, place}};
  return graph::apply_formula(OpId::addcdiv, arguments);
}

}  // namespace volta
