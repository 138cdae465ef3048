// Tensor's methods: handles, observation, in-place assignment, copies between devices.
#include "volta/tensor.h"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "core/counting.h"
#include "core/registry.h"
#include "graph/apply.h"
#include "graph/autocast.h"
#include "graph/autograd.h"
#include "graph/host.h"
#include "graph/index_checks.h"
#include "graph/placement.h"
#include "graph/segment.h"
#include "graph/tape_extras.h"
#include "graph/transfers.h"
#include "plan/runner.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"

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
  assign_node(target, source->node, !grad_enabled());
  // Under NoGrad the value changes and its history stays, as in PyTorch.
  if (grad_enabled()) set_tape(*variable, source->tape);
}

namespace {

// A new value that does not depend on the former one. The former's history stays, as in PyTorch:
// its gradient is 0.
void overwrite(const Tensor& target, const Tensor& value, const char* op, Place place) {
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
  const TransferReason reason("mixed devices", other.place(), name);  // the way back
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

void Tensor::item_into(DType dtype, void* value, Place place) const {
  graph::require_defined("item", *this, "this");
  if (numel() != 1) {
    throw ShapeError(fmt::format("item: expected one element, got {}", to_string(shape())));
  }
  const TransferReason reason("item", place);
  const auto bytes = graph::observe(node_of(*this));
  graph::convert(bytes.data(), this->dtype(), value, dtype, 1);
  const auto require_same = [&](auto before, auto after) {
    graph::convert(bytes.data(), this->dtype(), &before, dtype_of<decltype(before)>::value, 1);
    graph::convert(value, dtype, &after, dtype_of<decltype(after)>::value, 1);
    if (before != after)
      throw DTypeError(fmt::format("item: {} is not exact as {}", before, name_of(dtype)));
  };
  if (!is_floating(this->dtype())) {
    require_same(std::int64_t{0}, std::int64_t{0});
  } else if (!is_floating(dtype)) {  // floats may round to floats
    require_same(0.0, 0.0);
  }
}

double Tensor::item(Place place) const { return item<double>(place); }

void Tensor::values_into(DType dtype, void* values, Place place) const {
  graph::require_defined("to_vector", *this, "this");
  graph::require_holds("to_vector", this->dtype(), dtype);
  const TransferReason reason("to_vector", place);
  const auto bytes = graph::observe(node_of(*this));
  graph::convert(bytes.data(), this->dtype(), values, dtype, static_cast<std::size_t>(numel()));
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

const Tensor& Tensor::eval() const {
  graph::require_defined("eval", *this, "this");
  graph::Node* node = node_of(*this);
  graph::ensure_computed(node);
  const std::lock_guard guard(node->entry->lock);
  graph::throw_known_index_error(*node);
  return *this;
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

void Tensor::backward(BackwardOptions options, Place place) const {
  graph::require_defined("backward", *this, "this");
  const graph::Node& node = *node_of(*this);
  if (node.shape.numel() != 1) {
    throw ShapeError(fmt::format("backward: {} is not a scalar; pass a gradient of its shape",
                                 to_string(node.shape)));
  }
  graph::run_backward(*this, graph::filled(node.shape, 1, node.dtype, *node.entry), options, place);
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options, Place place) const {
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

Tensor Tensor::to(DType dtype, Place place) const {
  graph::require_defined("to", *this, "this");
  if (dtype == this->dtype()) return *this;
  graph::require_supported("to", dtype, device());
  return graph::apply(OpId::cast, {this, 1}, {}, shape(), dtype, place);
}

Tensor Tensor::to(Device device, Place place) const {
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

Tensor Tensor::clone(Place place) const {
  graph::require_defined("clone", *this, "this");
  // Nodes are immutable, so a variable of its own is a copy of its own. A cast to the same dtype is
  // that, with a place in the history.
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

Tensor& Tensor::fill_(Scalar value, Place place) & {
  graph::require_defined("fill_", *this, "this");
  graph::require_fits("fill_", value, dtype());
  graph::overwrite(*this, graph::filled(shape(), value, dtype(), device()), "fill_", place);
  return *this;
}

Tensor& Tensor::copy_(const Tensor& source, Place place) & {
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
  graph::assign_node(variable, TensorAccess::variable(value)->node, true);
  graph::set_tape(*TensorAccess::variable(variable), {});
}

#define VOLTA_METHOD(name) \
  Tensor Tensor::name(Place place) const { return volta::name(*this, place); }
VOLTA_METHOD(neg)
VOLTA_METHOD(abs)
VOLTA_METHOD(sign)
VOLTA_METHOD(exp)
VOLTA_METHOD(exp2)
VOLTA_METHOD(expm1)
VOLTA_METHOD(log)
VOLTA_METHOD(log2)
VOLTA_METHOD(log1p)
VOLTA_METHOD(sqrt)
VOLTA_METHOD(rsqrt)
VOLTA_METHOD(square)
VOLTA_METHOD(reciprocal)
VOLTA_METHOD(sin)
VOLTA_METHOD(cos)
VOLTA_METHOD(tan)
VOLTA_METHOD(asin)
VOLTA_METHOD(acos)
VOLTA_METHOD(atan)
VOLTA_METHOD(sinh)
VOLTA_METHOD(cosh)
VOLTA_METHOD(tanh)
VOLTA_METHOD(sigmoid)
VOLTA_METHOD(erf)
VOLTA_METHOD(floor)
VOLTA_METHOD(ceil)
VOLTA_METHOD(round)
VOLTA_METHOD(isnan)
VOLTA_METHOD(isinf)
VOLTA_METHOD(relu)
VOLTA_METHOD(gelu)
VOLTA_METHOD(silu)
VOLTA_METHOD(mish)
VOLTA_METHOD(hardswish)
VOLTA_METHOD(logical_not)
#undef VOLTA_METHOD
#define VOLTA_METHOD(name)                                    \
  Tensor Tensor::name(const Operand& other) const {           \
    return volta::name(Operand(*this, other.place()), other); \
  }
VOLTA_METHOD(mod)
VOLTA_METHOD(fmod)
VOLTA_METHOD(floor_div)
VOLTA_METHOD(pow)
VOLTA_METHOD(atan2)
VOLTA_METHOD(maximum)
VOLTA_METHOD(minimum)
VOLTA_METHOD(lt)
VOLTA_METHOD(le)
VOLTA_METHOD(gt)
VOLTA_METHOD(ge)
VOLTA_METHOD(eq)
VOLTA_METHOD(ne)
VOLTA_METHOD(logical_and)
VOLTA_METHOD(logical_or)
VOLTA_METHOD(logical_xor)
#undef VOLTA_METHOD

Tensor Tensor::gelu(GeluOptions options, Place place) const {
  return volta::gelu(*this, options, place);
}
Tensor Tensor::leaky_relu(double slope, Place place) const {
  return volta::leaky_relu(*this, slope, place);
}
Tensor Tensor::elu(double alpha, Place place) const { return volta::elu(*this, alpha, place); }
Tensor Tensor::softplus(double beta, double threshold, Place place) const {
  return volta::softplus(*this, beta, threshold, place);
}
Tensor Tensor::clamp(const std::optional<Operand>& low, const std::optional<Operand>& high,
                     Place place) const {
  return volta::clamp(*this, low, high, place);
}
Tensor Tensor::lerp(const Operand& end, const Operand& weight) const {
  return volta::lerp(Operand(*this, end.place()), end, weight);
}
Tensor Tensor::addcmul(const Operand& a, const Operand& b, Scalar value, Place place) const {
  return volta::addcmul(*this, a, b, value, place);
}
Tensor Tensor::addcdiv(const Operand& a, const Operand& b, Scalar value, Place place) const {
  return volta::addcdiv(*this, a, b, value, place);
}

Tensor Tensor::softmax(std::int64_t axis, Place place) const {
  return volta::softmax(*this, axis, place);
}
Tensor Tensor::log_softmax(std::int64_t axis, Place place) const {
  return volta::log_softmax(*this, axis, place);
}
Tensor Tensor::matmul(const Tensor& other, Place place) const {
  return volta::matmul(*this, other, place);
}

void submit(Device device) { graph::submit(device_entry(device)); }

void synchronize(Device device) {
  DeviceEntry& entry = device_entry(device);
  std::exception_ptr error;
  try {
    graph::submit_all(entry);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard guard(entry.lock);
  entry.backend.synchronize(entry.index);
  if (error) std::rethrow_exception(error);
  graph::check_device_error(entry);
}

}  // namespace volta
