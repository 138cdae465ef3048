// New tensors: from host values, constants (which take no memory until they must), random numbers.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "core/counting.h"
#include "core/registry.h"
#include "core/slab.h"
#include "graph/apply.h"
#include "graph/host.h"
#include "graph/segment.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta {

using graph::OpId;

namespace graph {

Tensor upload(const void* bytes, const Shape& shape, DType dtype, Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::size_t size = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  Buffer* buffer = allocate_buffer(entry, size);
  if (size > 0) {
    try {
      const std::lock_guard guard(entry.lock);
      entry.backend.upload(entry.index, buffer->address, bytes, size);
    } catch (...) {
      release(buffer);
      throw;
    }
    if (device.is_gpu()) {
      count(live_counters().transfers);
      count(live_counters().bytes_to_device, size);
    }
  }
  Node* node = new_node(OpId::constant, shape, dtype, &entry);
  node->buffer = buffer;
  node->state.store(NodeState::Computed, std::memory_order_release);
  return TensorAccess::from_node(node);
}

Tensor pinned(const Tensor& x) {
  const std::optional<Device> gpu = Device::gpu();
  if (!gpu) return x;
  const std::span<const std::byte> bytes = observe(node_of(x));
  DeviceEntry& entry = device_entry(*gpu);
  void* memory = entry.backend.allocate_pinned(entry.index, std::max<std::size_t>(bytes.size(), 1));
  if (memory == nullptr) return x;
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = node_of(x)->entry;
  buffer->address = {memory, 0};
  buffer->bytes = bytes.size();
  buffer->pool_owned = false;
  buffer->deleter = [&entry, memory] { entry.backend.release_pinned(entry.index, memory); };
  Node* node = new_node(OpId::constant, x.shape(), x.dtype(), buffer->entry);
  node->buffer = buffer;
  node->state.store(NodeState::Computed, std::memory_order_release);
  return TensorAccess::from_node(node);
}

RandomState& random_state() {
  // Threads draw different numbers; the first one always the same.
  static std::atomic<std::uint64_t> threads{0};
  thread_local RandomState state{0x5EED + 0x9E3779B97F4A7C15u * threads.fetch_add(1), 0};
  return state;
}

namespace {

Tensor finish(Tensor tensor, const TensorOptions& options) {
  if (options.requires_grad) tensor.set_requires_grad();
  return tensor;
}

// A random operation: seed and offset are arguments, so that a step that draws again replays.
Tensor draw(OpId op, const Shape& shape, DType dtype, Device device, std::int64_t words,
            Place place) {
  require_supported(op_info(op).name, dtype, device);
  const RandomState random = take_random(words);
  const Tensor inputs[2] = {number(static_cast<std::int64_t>(random.seed), DType::i64, device),
                            number(static_cast<std::int64_t>(random.offset), DType::i64, device)};
  return apply(op, inputs, shape.sizes(), shape, dtype, place);
}

}  // namespace

RandomState take_random(std::int64_t words) {
  RandomState& state = random_state();
  const RandomState taken = state;
  state.offset += static_cast<std::uint64_t>((words + 3) / 4);
  return taken;
}

}  // namespace graph

void manual_seed(std::uint64_t seed) { graph::random_state() = {seed, 0}; }

namespace detail {

Tensor from_values(const void* values, std::size_t count, DType dtype, const Shape& shape,
                   const TensorOptions& options, Place) {
  if (static_cast<std::int64_t>(count) != shape.numel()) {
    throw ShapeError(fmt::format("tensor: {} values do not fill {} ({} elements)", count,
                                 to_string(shape), shape.numel()));
  }
  const Device device = options.device.value_or(Device::cpu());
  const DType wanted = options.dtype.value_or(dtype);
  graph::require_supported("tensor", wanted, device);
  if (wanted == dtype) return graph::finish(graph::upload(values, shape, dtype, device), options);
  std::vector<std::byte> converted(count * size_of(wanted));
  graph::convert_fitting("tensor", values, dtype, converted.data(), wanted, count);
  return graph::finish(graph::upload(converted.data(), shape, wanted, device), options);
}

}  // namespace detail

Tensor tensor(std::initializer_list<double> values, const Shape& shape, TensorOptions options,
              Place place) {
  options.dtype = options.dtype.value_or(DType::f32);
  return detail::from_values(values.begin(), values.size(), DType::f64, shape, options, place);
}
Tensor tensor(std::initializer_list<double> values, TensorOptions options, Place place) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())}, options, place);
}

Tensor full(const Shape& shape, Scalar value, TensorOptions options, Place) {
  const Device device = options.device.value_or(Device::cpu());
  const DType natural = value.is_floating()  ? DType::f32
                        : value.is_boolean() ? DType::boolean
                                             : DType::i64;
  const DType dtype = options.dtype.value_or(natural);
  graph::require_supported("full", dtype, device);
  graph::require_fits("full", value, dtype);
  return graph::finish(graph::filled(shape, value, dtype, device), options);
}
Tensor scalar(Scalar value, TensorOptions options, Place place) {
  options.dtype = options.dtype.value_or(DType::f32);
  return full(Shape{}, value, options, place);
}
Tensor zeros(const Shape& shape, TensorOptions options, Place place) {
  options.dtype = options.dtype.value_or(DType::f32);
  return full(shape, 0, options, place);
}
Tensor ones(const Shape& shape, TensorOptions options, Place place) {
  options.dtype = options.dtype.value_or(DType::f32);
  return full(shape, 1, options, place);
}
Tensor zeros_like(const Tensor& other, Place place) {
  graph::require_defined("zeros_like", other);
  return zeros(other.shape(), {.dtype = other.dtype(), .device = other.device()}, place);
}
Tensor ones_like(const Tensor& other, Place place) {
  graph::require_defined("ones_like", other);
  return ones(other.shape(), {.dtype = other.dtype(), .device = other.device()}, place);
}

Tensor arange(std::int64_t n, TensorOptions options, Place place) {
  if (n < 0) throw ArgumentError(fmt::format("arange: {} is negative", n));
  const Device device = options.device.value_or(Device::cpu());
  const DType dtype = options.dtype.value_or(DType::i64);
  graph::require_supported("arange", dtype, device);
  const std::int64_t attrs[2] = {0, n};
  graph::Node* node =
      graph::record({OpId::iota, dtype, {}, attrs, Shape{n}, place}, device_entry(device));
  const graph::Held held = graph::Held::adopt(node);
  return graph::finish(graph::TensorAccess::from_node(node), options);
}

namespace {
DType floating_option(const char* op, const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(DType::f32);
  if (!is_floating(dtype)) graph::throw_dtype(op, dtype, "a floating-point dtype");
  return dtype;
}
DType uniform_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
}  // namespace

Tensor rand(const Shape& shape, TensorOptions options, Place place) {
  const DType dtype = floating_option("rand", options);
  const Device device = options.device.value_or(Device::cpu());
  const Tensor u =
      graph::draw(OpId::philox, shape, uniform_dtype(dtype), device, shape.numel(), place);
  return graph::finish(u.to(dtype, place), options);
}

Tensor randn(const Shape& shape, TensorOptions options, Place place) {
  const DType dtype = floating_option("randn", options);
  const Device device = options.device.value_or(Device::cpu());
  return graph::finish(graph::draw(OpId::normal, shape, dtype, device, 2 * shape.numel(), place),
                       options);
}

Tensor uniform(const Shape& shape, double low, double high, TensorOptions options, Place place) {
  const DType dtype = floating_option("uniform", options);
  const Device device = options.device.value_or(Device::cpu());
  if (!(low <= high))
    throw ArgumentError(fmt::format("uniform: low {} is not at most high {}", low, high));
  const Tensor u =
      graph::draw(OpId::philox, shape, uniform_dtype(dtype), device, shape.numel(), place);
  const Tensor scaled = graph::binary(
      OpId::add, graph::binary(OpId::mul, {u, place}, {high - low, place}), {low, place});
  return graph::finish(scaled.to(dtype, place), options);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options,
               Place place) {
  const std::uint64_t length = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (low >= high || length > std::uint64_t{1} << 32) {
    throw ArgumentError(fmt::format("randint: [{}, {}) is empty or longer than 2^32", low, high));
  }
  const Device device = options.device.value_or(Device::cpu());
  const DType dtype = options.dtype.value_or(DType::i64);
  // floor(u n): exact products of 24-bit (f32) or 32-bit (f64) uniforms, so the same integers
  // everywhere.
  const DType uniform = high - low <= std::int64_t{1} << 24 ? DType::f32 : DType::f64;
  const Tensor u = graph::draw(OpId::philox, shape, uniform, device, shape.numel(), place);
  const Tensor scaled = graph::binary(OpId::mul, {u, place}, {high - low, place}).floor(place);
  const Tensor shifted =
      graph::binary(OpId::add, {scaled.to(DType::i64, place), place}, {low, place});
  return graph::finish(shifted.to(dtype, place), options);
}

}  // namespace volta
