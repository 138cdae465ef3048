// Methods of Tensor: handles, observation, in-place assignment, copies between devices.
#include "volta/tensor.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/convert.h"
#include "core/counting.h"
#include "graph/attributes/selection.h"
#include "graph/autograd/autograd.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/evaluation.h"
#include "graph/record/placing.h"
#include "graph/record/recorder.h"
#include "graph/record/tape_extras.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta {

using graph::node_of;
using graph::NodeState;
using graph::OpId;
using graph::TensorAccess;
using graph::Variable;

namespace graph {

void replace_value(const Tensor& target, const Tensor& value, const char* op) {
  Variable* variable = TensorAccess::variable(target);
  Variable* source = TensorAccess::variable(value);
  if (variable->requires_grad && grad_enabled()) {
    throw ArgumentError(
        fmt::format("{}: a leaf that requires a gradient changes in place only under NoGrad", op));
  }
  assign_node(target, source->node, grad_enabled() ? Assignment::Value : Assignment::State);
  // Under NoGrad the value changes but its history stays, as in PyTorch.
  if (grad_enabled()) set_tape(*variable, source->tape);
}

namespace {

// Assigns a value that does not depend on the old one. The old value's history stays, as in
// PyTorch, and receives a zero gradient.
void overwrite(const Tensor& target, const Tensor& value, const char* op, SourceLocation place) {
  if (!grad_enabled() || !TensorAccess::variable(target)->tape)
    return replace_value(target, value, op);
  Node* node = node_of(value);
  const Tensor everywhere = number(true, DType::boolean, target.device());
  const Borrowed inputs[] = {everywhere, value, target};
  const Tensor now =
      TensorAccess::make(Held(node), make_tape(OpId::where, inputs, {}, {&node, 1}, place));
  replace_value(target, now, op);
}

}  // namespace

void require_fits_in_place(const char* op, DType result, DType target) {
  const auto kind = [](DType dtype) {
    return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1;
  };
  if (kind(result) <= kind(target)) return;
  throw DTypeError(fmt::format("{}: the result is {} and does not fit into {} in place", op,
                               name_of(result), name_of(target)));
}

}  // namespace graph

namespace {

void require_same_shape(const char* op, const Tensor& target, const Tensor& value) {
  if (target.shape() != value.shape()) {
    throw ShapeError(fmt::format("{}: {} does not fit into {} in place", op,
                                 to_string(value.shape()), to_string(target.shape())));
  }
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int i = 1; fits && i <= from.rank(); ++i)
    fits = from[from.rank() - i] == 1 || from[from.rank() - i] == to[to.rank() - i];
  return fits;
}

void update(Tensor& target, OpId op, const char* name, const Operand& other) {
  graph::require_defined(name, target);
  const Tensor result = graph::binary(op, Operand(target, other.place()), other);
  require_same_shape(name, target, result);
  graph::require_fits_in_place(name, result.dtype(), target.dtype());
  // The result moves back to the device of the target.
  const TransferReason reason("mixed devices", other.place(), name);
  const Tensor here = graph::to_assign(result, target, other.place());
  graph::replace_value(target, here.to(target.dtype(), other.place()), name);
}

}  // namespace

Tensor::Tensor(const Tensor& other) noexcept : variable_(other.variable_) {
  if (variable_ != nullptr) variable_->refs.fetch_add(1, std::memory_order_relaxed);
}
Tensor& Tensor::operator=(const Tensor& other) & noexcept {
  Tensor copy(other);
  std::swap(variable_, copy.variable_);
  return *this;
}
void Tensor::drop(Variable* variable) noexcept { graph::release(variable); }

const Shape& Tensor::shape() const {
  graph::require_defined("shape", *this, "this");
  return node_of(*this)->shape;
}
std::int64_t Tensor::size(std::int64_t axis) const {
  return shape()[normalize_axis("size", axis, shape())];
}
DType Tensor::dtype() const {
  graph::require_defined("dtype", *this, "this");
  return node_of(*this)->dtype;
}
Device Tensor::device() const {
  graph::require_defined("device", *this, "this");
  return node_of(*this)->entry->device;
}

namespace {

// Converts an element for item(), exactly but for rounding between float dtypes.
constexpr std::size_t kLargestElement = 8;  // bytes

void convert_item(const void* element, DType from, DType to, void* value) {
  convert(element, from, value, to, 1);
  const auto require_same = [&](auto before, auto after) {
    convert(element, from, &before, dtype_of<decltype(before)>::value, 1);
    convert(value, to, &after, dtype_of<decltype(after)>::value, 1);
    if (before != after)
      throw DTypeError(fmt::format("item: {} is not exact as {}", before, name_of(to)));
  };
  if (!is_floating(from)) {
    require_same(std::int64_t{0}, std::int64_t{0});
  } else if (!is_floating(to)) {
    require_same(0.0, 0.0);
  }
}

}  // namespace

void Tensor::item_into(DType dtype, void* value, SourceLocation place) const {
  graph::require_defined("item", *this, "this");
  const TransferReason reason("item", place);
  if (const auto picked = graph::picked_element(*variable_)) {
    std::array<std::byte, kLargestElement> bytes{};
    graph::read_element(picked->source.get(), picked->number, bytes.data());
    return convert_item(bytes.data(), picked->source.get()->dtype, dtype, value);
  }
  if (numel() != 1) {
    throw ShapeError(fmt::format("item: expected one element, got {}", to_string(shape())));
  }
  convert_item(graph::observe(node_of(*this)).data(), this->dtype(), dtype, value);
}

double Tensor::item(SourceLocation place) const { return item<double>(place); }

void Tensor::values_into(DType dtype, void* values, SourceLocation place) const {
  graph::require_defined("to_vector", *this, "this");
  require_holds("to_vector", this->dtype(), dtype);
  const TransferReason reason("to_vector", place);
  const auto bytes = graph::observe(node_of(*this));
  convert(bytes.data(), this->dtype(), values, dtype, static_cast<std::size_t>(numel()));
}

void Tensor::require_host_memory(std::size_t element_bytes) const {
  graph::require_host_memory("to_vector", *this, element_bytes);
}

const void* Tensor::values_of(std::optional<DType> dtype) const {
  graph::require_defined("span", *this, "this");
  if (!device().is_cpu()) {
    throw DeviceError(fmt::format("span: the tensor is on {}; copy it with to(Device::cpu())",
                                  to_string(device())));
  }
  if (dtype && *dtype != this->dtype()) {
    throw DTypeError(fmt::format("span: the tensor is {}, not {}; convert it with to()",
                                 name_of(this->dtype()), name_of(*dtype)));
  }
  return graph::observe(node_of(*this)).data();
}

bool Tensor::is_pending() const {
  graph::require_defined("is_pending", *this, "this");
  return node_of(*this)->state.load(std::memory_order_acquire) == NodeState::Pending;
}

bool Tensor::requires_grad() const {
  graph::require_defined("requires_grad", *this, "this");
  const Variable* variable = TensorAccess::variable(*this);
  return variable->requires_grad || variable->tape;
}

Tensor& Tensor::set_requires_grad(bool value) {
  graph::require_defined("set_requires_grad", *this, "this");
  Variable* variable = TensorAccess::variable(*this);
  if (variable->tape)
    throw ArgumentError("set_requires_grad: only leaves can be changed; use detach()");
  if (value && !is_floating(dtype()))
    graph::throw_dtype("set_requires_grad", dtype(), "a floating-point tensor");
  if (!value && graph::recording_state.casts != nullptr) graph::forget_cast(*variable);
  variable->requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const {
  graph::require_defined("is_leaf", *this, "this");
  return !TensorAccess::variable(*this)->tape;
}

Tensor Tensor::grad() const {
  graph::require_defined("grad", *this, "this");
  return TensorAccess::variable(*this)->grad;
}

void Tensor::set_grad(const Tensor& gradient) const {
  graph::require_defined("set_grad", *this, "this");
  if (gradient.defined()) {
    require_same_shape("set_grad", *this, gradient);
    if (gradient.dtype() != dtype() || gradient.device() != device()) {
      throw ArgumentError(fmt::format("set_grad: the gradient is {} on {}, the tensor {} on {}",
                                      name_of(gradient.dtype()), to_string(gradient.device()),
                                      name_of(dtype()), to_string(device())));
    }
  }
  TensorAccess::variable(*this)->grad = gradient;
}

void Tensor::zero_grad() const {
  graph::require_defined("zero_grad", *this, "this");
  TensorAccess::variable(*this)->grad = Tensor();
}

Tensor Tensor::detach() const {
  graph::require_defined("detach", *this, "this");
  return TensorAccess::from_node(node_of(*this));
}

void Tensor::backward(BackwardOptions options, SourceLocation place) const {
  graph::require_defined("backward", *this, "this");
  const graph::Node& node = *node_of(*this);
  if (node.shape.numel() != 1) {
    throw ShapeError(fmt::format("backward: {} is not a scalar; pass a gradient of its shape",
                                 to_string(node.shape)));
  }
  graph::run_backward(*this, graph::filled(node.shape, 1, node.dtype, *node.entry), options, place);
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options, SourceLocation place) const {
  graph::require_defined("backward", *this, "this");
  graph::require_defined("backward", gradient, "the gradient");
  if (gradient.shape() != shape()) {
    throw ShapeError(fmt::format("backward: gradient {} for a tensor {}",
                                 to_string(gradient.shape()), to_string(shape())));
  }
  const Tensor here = [&] {
    const TransferReason reason("gradients", place);
    return gradient.to(dtype(), place).to(device(), place);
  }();
  graph::run_backward(*this, here, options, place);
}

Tensor Tensor::to(DType dtype, SourceLocation place) const {
  graph::require_defined("to", *this, "this");
  if (dtype == this->dtype()) return *this;
  graph::require_supported("to", dtype, device());
  return graph::apply(OpId::cast, {this, 1}, {}, shape(), dtype, place);
}

Tensor Tensor::to(Device device, SourceLocation place) const {
  graph::require_defined("to", *this, "this");
  if (device == this->device()) return *this;
  graph::require_supported("to", dtype(), device);
  const TransferReason reason("to", place);
  return graph::copy_to_device(*this, device, place);
}

Tensor Tensor::pin_memory() const {
  graph::require_defined("pin_memory", *this, "this");
  if (!device().is_cpu()) {
    throw DeviceError(
        fmt::format("pin_memory: expected a tensor on cpu, got one on {}", to_string(device())));
  }
  return graph::pinned(*this);
}

Tensor Tensor::clone(SourceLocation place) const {
  graph::require_defined("clone", *this, "this");
  // Nodes are immutable, so a copy is a new variable. A cast to the same dtype makes one and
  // records it in the history.
  return graph::apply(OpId::cast, {this, 1}, {}, shape(), dtype(), place);
}

Tensor& Tensor::operator+=(const Operand& other) & {
  return update(*this, OpId::add, "+=", other), *this;
}
Tensor& Tensor::operator-=(const Operand& other) & {
  return update(*this, OpId::sub, "-=", other), *this;
}
Tensor& Tensor::operator*=(const Operand& other) & {
  return update(*this, OpId::mul, "*=", other), *this;
}
Tensor& Tensor::operator/=(const Operand& other) & {
  return update(*this, OpId::div, "/=", other), *this;
}

Tensor& Tensor::fill_(Scalar value, SourceLocation place) & {
  graph::require_defined("fill_", *this, "this");
  require_fits("fill_", value, dtype());
  graph::overwrite(*this, graph::filled(shape(), value, dtype(), device()), "fill_", place);
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source, SourceLocation place) & {
  graph::require_defined("copy_", *this, "this");
  graph::require_defined("copy_", source, "the source");
  if (!broadcasts_to(source.shape(), shape())) require_same_shape("copy_", *this, source);
  const TransferReason reason("copy_", place);
  Tensor value = source.to(device(), place).to(dtype(), place);
  if (value.shape() != shape()) value = graph::expand_to(value, shape(), place);
  const bool leaf = TensorAccess::variable(value)->requires_grad && grad_enabled();
  graph::overwrite(*this, leaf ? value.clone(place) : value, "copy_", place);
  return *this;
}

void assign(Tensor& variable, const Tensor& value) {
  graph::require_defined("assign", variable, "the variable");
  graph::require_defined("assign", value, "the value");
  require_same_shape("assign", variable, value);
  graph::assign_node(variable, TensorAccess::variable(value)->node, graph::Assignment::State);
  graph::set_tape(*TensorAccess::variable(variable), {});
}

// Defines the methods of the table, by the kind of argument in the column `function` of
// elementwise.def.
#define VOLTA_UNARY(name) \
  Tensor Tensor::name(SourceLocation place) const { return volta::name(*this, place); }
#define VOLTA_BINARY(name)                                    \
  Tensor Tensor::name(const Operand& other) const {           \
    return volta::name(Operand(*this, other.place()), other); \
  }
#define VOLTA_NOTHING(name)
#define VOLTA_METHOD_numbers(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_floats(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_activation(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_whole(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_test(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_truth(name) VOLTA_UNARY(name)
#define VOLTA_METHOD_binary(name) VOLTA_BINARY(name)
#define VOLTA_METHOD_arithmetic(name)
#define VOLTA_METHOD_exchanged(name) VOLTA_BINARY(name)
#define VOLTA_METHOD_none(name)
#define VOLTA_METHOD_written(parameters) VOLTA_NOTHING
#define VOLTA_METHOD_free(parameters) VOLTA_NOTHING
#define VOLTA_ELEMENTWISE(name, function, ...) VOLTA_METHOD_##function(name)
#include "graph/record/elementwise.def"

Tensor Tensor::gelu(GeluOptions options, SourceLocation place) const {
  return volta::gelu(*this, options, place);
}
Tensor Tensor::leaky_relu(double slope, SourceLocation place) const {
  return volta::leaky_relu(*this, slope, place);
}
Tensor Tensor::elu(double alpha, SourceLocation place) const {
  return volta::elu(*this, alpha, place);
}
Tensor Tensor::softplus(double beta, double threshold, SourceLocation place) const {
  return volta::softplus(*this, beta, threshold, place);
}
Tensor Tensor::clamp(const std::optional<Operand>& low, const std::optional<Operand>& high,
                     SourceLocation place) const {
  return volta::clamp(*this, low, high, place);
}
Tensor Tensor::lerp(const Operand& b, const Operand& weight) const {
  return volta::lerp(Operand(*this, b.place()), b, weight);
}
Tensor Tensor::addcmul(const Operand& a, const Operand& b, Scalar value,
                       SourceLocation place) const {
  return volta::addcmul(*this, a, b, value, place);
}
Tensor Tensor::addcdiv(const Operand& a, const Operand& b, Scalar value,
                       SourceLocation place) const {
  return volta::addcdiv(*this, a, b, value, place);
}

Tensor Tensor::softmax(std::int64_t axis, SourceLocation place) const {
  return volta::softmax(*this, axis, place);
}
Tensor Tensor::log_softmax(std::int64_t axis, SourceLocation place) const {
  return volta::log_softmax(*this, axis, place);
}
Tensor Tensor::matmul(const Tensor& other, SourceLocation place) const {
  return volta::matmul(*this, other, place);
}

}  // namespace volta
