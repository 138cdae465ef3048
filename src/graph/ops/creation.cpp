// Creates tensors from host values, constants (which take no memory until needed) and sequences.
#include "graph/record/creation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "core/convert.h"
#include "core/profiling.h"
#include "core/slab.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "graph/record/holders.h"
#include "graph/record/placing.h"
#include "graph/record/recorder.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta {

using graph::OpId;

namespace graph {

Making making(const char* op, const Shape& shape, const TensorOptions& options, DType natural,
              bool from_host) {
  const DType dtype = options.dtype.value_or(natural);
  const Device device = options.device ? *options.device
                        : is_placing() ? placed_creation(shape, dtype, from_host)
                                       : Device::cpu();
  require_supported(op, dtype, device);
  require_countable(op, shape, dtype);
  if (options.requires_grad) require_differentiable(op, dtype);
  return {device_entry(device), dtype, AsWritten(options.device.has_value())};
}

void require_differentiable(const char* op, DType dtype) {
  if (!is_floating(dtype)) throw_dtype(op, dtype, "a floating-point dtype for requires_grad");
}

TensorOptions options_like(const char* op, const Tensor& other, const TensorOptions& options) {
  require_defined(op, other);
  return {.dtype = options.dtype.value_or(other.dtype()),
          .device = options.device.value_or(other.device()),
          .requires_grad = options.requires_grad,
          .generator = options.generator};
}

Tensor finish(Tensor tensor, bool requires_grad) {
  if (requires_grad) tensor.set_requires_grad();
  return tensor;
}

Tensor in_buffer(Buffer* buffer, const Shape& shape, DType dtype) {
  Node* node = new_node(OpId::constant, shape, dtype, buffer->entry);
  node->buffer = buffer;
  node->place = transfer_place();
  note_holding(buffer, *node);
  node->state.store(NodeState::Computed, std::memory_order_release);
  return TensorAccess::from_node(node);
}

namespace {

Tensor constant(const char* op, const Shape& shape, Scalar value, const TensorOptions& options,
                DType natural) {
  const Making made = making(op, shape, options, natural);
  require_fits(op, value, made.dtype);
  return finish(filled(shape, value, made.dtype, made.entry), options.requires_grad);
}

// A tensor of indices along the axis.
Tensor iota(const Shape& shape, std::int64_t axis, DType dtype, DeviceEntry& entry,
            SourceLocation place) {
  std::int64_t attrs[kMaxRank + 1] = {axis};
  std::copy(shape.begin(), shape.end(), attrs + 1);
  const std::span<const std::int64_t> used(attrs, static_cast<std::size_t>(shape.rank()) + 1);
  return TensorAccess::make(
      Held::adopt(record({OpId::iota, dtype, {}, used, shape, place}, entry)));
}

// The dtype in which floating-point sequences are computed.
DType precise(const DeviceEntry& entry) {
  return entry.backend.supports(entry.index, DType::f64) ? DType::f64 : DType::f32;
}

Operand at(const Tensor& tensor, SourceLocation place) { return {tensor, place}; }
Operand at(Scalar number, SourceLocation place) { return {number, place}; }

std::string written(Scalar number) {
  const bool exact = !number.is_floating() && number.fits_integer();
  return exact ? fmt::to_string(number.integer()) : fmt::to_string(number.value());
}

// The number of elements in a sequence that stops before `stop`.
std::int64_t steps_between(Scalar start, Scalar stop, Scalar step) {
  const auto refuse = [&](const char* why) {
    throw ArgumentError(fmt::format("arange: from {} to {} by {}: {}", written(start),
                                    written(stop), written(step), why));
  };
  for (const Scalar number : {start, stop, step})
    if (!std::isfinite(number.value())) refuse("not finite");
  if (step.value() == 0) refuse("the step is 0");
  const bool rises = step.value() > 0;
  if (rises ? stop.value() < start.value() : stop.value() > start.value())
    refuse("the steps lead away from the end");
  if (!start.is_floating() && !stop.is_floating() && !step.is_floating()) {
    for (const Scalar number : {start, stop, step})
      if (!number.fits_integer()) refuse("a number is past 2^63 - 1");
    if (rises ? stop.integer() < start.integer() : stop.integer() > start.integer())
      refuse("the steps lead away from the end");
    // The distance is below 2^64 and the step is at least 1, so unsigned arithmetic is exact.
    const auto a = static_cast<std::uint64_t>(start.integer()),
               b = static_cast<std::uint64_t>(stop.integer()),
               by = static_cast<std::uint64_t>(step.integer());
    const std::uint64_t distance = rises ? b - a : a - b, stride = rises ? by : 0 - by;
    const std::uint64_t steps = distance / stride + (distance % stride != 0 ? 1 : 0);
    if (steps >> 63 != 0) refuse("more than 2^63 - 1 numbers");
    return static_cast<std::int64_t>(steps);
  }
  const double steps = std::ceil((stop.value() - start.value()) / step.value());
  if (!(steps < 0x1p63)) refuse("more than 2^63 - 1 numbers");
  return static_cast<std::int64_t>(steps);
}

// The number truncated to an integer.
Scalar whole(Scalar number) {
  return number.is_floating() ? Scalar(static_cast<std::int64_t>(number.value())) : number;
}

Tensor sequence(Scalar start, Scalar stop, Scalar step, const TensorOptions& options,
                SourceLocation place) {
  bool integers = !start.is_floating() && !stop.is_floating() && !step.is_floating();
  const Shape shape{steps_between(start, stop, step)};
  const Making made = making("arange", shape, options, integers ? DType::i64 : DType::f32);
  // As in PyTorch, the length of an integer sequence follows from the numbers given, but start and
  // step are truncated.
  if (!integers && is_integral(made.dtype) && made.dtype != DType::boolean) {
    require_fits("arange", start, made.dtype);
    require_fits("arange", step, DType::i64);
    start = whole(start);
    step = whole(step);
    integers = true;
  }
  const std::int64_t last = shape.numel() - 1;
  if (shape.numel() > 0) {
    require_fits("arange", start, made.dtype);
    // The distance may need 64 bits even if both ends fit in 63.
    const auto wrapped =
        static_cast<std::uint64_t>(start.integer()) +
        static_cast<std::uint64_t>(last) * static_cast<std::uint64_t>(step.integer());
    const Scalar end = integers ? Scalar(static_cast<std::int64_t>(wrapped))
                                : Scalar(start.value() + static_cast<double>(last) * step.value());
    require_fits("arange", end, made.dtype);
  }
  const bool from_zero = start.value() == 0 && !std::signbit(start.value());
  if (from_zero && step.value() == 1 && last < std::int64_t{1} << 24)
    return iota(shape, 0, made.dtype, made.entry, place);
  const DType inner = integers ? DType::i64 : precise(made.entry);
  Tensor x = iota(shape, 0, inner, made.entry, place);
  if (step.value() != 1) x = binary(OpId::mul, at(x, place), at(step, place));
  if (!from_zero) x = binary(OpId::add, at(x, place), at(start, place));
  return x.to(made.dtype, place);
}

}  // namespace
}  // namespace graph

namespace detail {

Tensor from_values(const char* op, const void* values, std::size_t count, DType dtype,
                   const Shape& shape, const TensorOptions& options, SourceLocation place) {
  if (static_cast<std::int64_t>(count) != shape.numel()) {
    throw ShapeError(fmt::format("{}: {} values do not fill {} ({} elements)", op, count,
                                 to_string(shape), shape.numel()));
  }
  const graph::Making made = graph::making(op, shape, options, dtype, true);
  const Device device = made.entry.device;
  const TransferReason reason(op, place);
  if (made.dtype == dtype)
    return graph::finish(graph::upload(values, shape, dtype, device), options.requires_grad);
  std::vector<std::byte> converted(count * size_of(made.dtype));
  convert_fitting(op, values, dtype, converted.data(), made.dtype, count);
  return graph::finish(graph::upload(converted.data(), shape, made.dtype, device),
                       options.requires_grad);
}

}  // namespace detail

Tensor tensor(std::initializer_list<double> values, const Shape& shape,
              const TensorOptions& options, SourceLocation place) {
  TensorOptions made = options;
  made.dtype = options.dtype.value_or(DType::f32);
  return detail::from_values("tensor", values.begin(), values.size(), DType::f64, shape, made,
                             place);
}
Tensor tensor(std::initializer_list<double> values, const TensorOptions& options,
              SourceLocation place) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())}, options, place);
}

Tensor full(const Shape& shape, Scalar value, const TensorOptions& options, SourceLocation) {
  return graph::constant("full", shape, value, options, graph::natural_dtype(value));
}
Tensor scalar(Scalar value, const TensorOptions& options, SourceLocation) {
  return graph::constant("scalar", Shape{}, value, options, graph::natural_dtype(value));
}
Tensor zeros(const Shape& shape, const TensorOptions& options, SourceLocation) {
  return graph::constant("zeros", shape, 0, options, DType::f32);
}
Tensor ones(const Shape& shape, const TensorOptions& options, SourceLocation) {
  return graph::constant("ones", shape, 1, options, DType::f32);
}
// Returns zeros: a constant needs no memory, unlike an uninitialised buffer.
Tensor empty(const Shape& shape, const TensorOptions& options, SourceLocation) {
  return graph::constant("empty", shape, 0, options, DType::f32);
}

namespace {
Tensor constant_like(const char* op, const Tensor& other, Scalar value,
                     const TensorOptions& options) {
  const TensorOptions made = graph::options_like(op, other, options);
  return graph::constant(op, other.shape(), value, made, *made.dtype);
}
}  // namespace
Tensor full_like(const Tensor& other, Scalar value, const TensorOptions& options, SourceLocation) {
  return constant_like("full_like", other, value, options);
}
Tensor zeros_like(const Tensor& other, const TensorOptions& options, SourceLocation) {
  return constant_like("zeros_like", other, 0, options);
}
Tensor ones_like(const Tensor& other, const TensorOptions& options, SourceLocation) {
  return constant_like("ones_like", other, 1, options);
}
Tensor empty_like(const Tensor& other, const TensorOptions& options, SourceLocation) {
  return constant_like("empty_like", other, 0, options);
}

Tensor arange(Scalar start, Scalar stop, Scalar step, const TensorOptions& options,
              SourceLocation place) {
  return graph::finish(graph::sequence(start, stop, step, options, place), options.requires_grad);
}
Tensor arange(Scalar start, Scalar stop, const TensorOptions& options, SourceLocation place) {
  return arange(start, stop, 1, options, place);
}
Tensor arange(Scalar stop, const TensorOptions& options, SourceLocation place) {
  return arange(0, stop, 1, options, place);
}

// The second half is computed from the end, so that the last element is exact.
Tensor linspace(double start, double end, std::int64_t count, const TensorOptions& options,
                SourceLocation place) {
  if (count < 0) throw ArgumentError(fmt::format("linspace: a count of {} is negative", count));
  if (!std::isfinite(start) || !std::isfinite(end))
    throw ArgumentError(fmt::format("linspace: from {} to {}: not finite", start, end));
  const Shape shape{count};
  const graph::Making made = graph::making("linspace", shape, options, DType::f32);
  for (const double bound : {start, end}) require_fits("linspace", bound, made.dtype);
  if (is_integral(made.dtype) &&
      made.dtype != DType::boolean) {  // both ends are truncated, as in PyTorch
    start = std::trunc(start);
    end = std::trunc(end);
  }
  const auto at = [&](const auto& x) { return graph::at(x, place); };
  const auto binary = [&](OpId op, const auto& a, const auto& b) {
    return graph::binary(op, at(a), at(b));
  };
  const DType inner = graph::precise(made.entry);
  const double step = count > 1 ? (end - start) / static_cast<double>(count - 1) : 0;
  const Tensor index = graph::iota(shape, 0, inner, made.entry, place);
  const Tensor rising = binary(OpId::add, binary(OpId::mul, index, step), start);
  const Tensor left = binary(OpId::sub, Scalar(static_cast<double>(count - 1)), index);
  const Tensor falling = binary(OpId::sub, Scalar(end), binary(OpId::mul, left, step));
  const std::int64_t half = std::max<std::int64_t>(count / 2, 1);
  const Tensor first_half = binary(OpId::lt, index, static_cast<double>(half));
  const Tensor x = where(first_half, at(rising), at(falling));
  return graph::finish(x.to(made.dtype, place), options.requires_grad);
}

Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options, SourceLocation place) {
  if (n < 0 || m < 0) throw ArgumentError(fmt::format("eye: a size of [{}, {}] is negative", n, m));
  const std::int64_t sizes[] = {n, m};
  const Shape shape(sizes, "eye");
  const graph::Making made = graph::making("eye", shape, options, DType::f32);
  const auto index = [&](const Shape& line, std::int64_t axis) {
    return graph::iota(line, axis, DType::i64, made.entry, place);
  };
  const Tensor x = graph::binary(OpId::eq, {index({n, 1}, 0), place}, {index({1, m}, 1), place});
  return graph::finish(x.to(made.dtype, place), options.requires_grad);
}
Tensor eye(std::int64_t n, const TensorOptions& options, SourceLocation place) {
  return eye(n, n, options, place);
}

}  // namespace volta
