// Tensors on foreign memory: used in place if the layout allows, copied otherwise.
#include "runtime/transfer/blob.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/registry.h"
#include "graph/record/apply.h"
#include "graph/record/creation.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "volta/creation.h"
#include "volta/error.h"

namespace volta {
namespace graph {
namespace {

// GPU kernels read up to 16 bytes at once.
constexpr std::uintptr_t kGpuAlignment = 16;

// The axes from the slowest to the fastest, if the strides are those of a dense array with permuted
// axes.
std::optional<std::vector<std::int64_t>> dense_order(const Shape& shape,
                                                     std::span<const std::int64_t> strides) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (strides.empty()) return order;
  const auto stride = [&](std::int64_t axis) { return strides[static_cast<std::size_t>(axis)]; };
  const auto size = [&](std::int64_t axis) { return shape[static_cast<int>(axis)]; };
  const auto is_dense = [&] {
    std::int64_t expected = 1;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      if (size(*axis) == 1) continue;  // the stride of an axis of size 1 is irrelevant
      if (stride(*axis) != expected) return false;
      expected *= size(*axis);
    }
    return true;
  };
  if (is_dense()) return order;
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(-stride(a), a) < std::pair(-stride(b), b);
  });
  if (is_dense()) return order;
  return std::nullopt;
}

// Copies the elements into the order of the tensor, with memcpy because the source may be
// unaligned.
std::vector<std::byte> gathered(const std::byte* from, const Shape& shape,
                                std::span<const std::int64_t> strides, std::size_t size) {
  std::vector<std::byte> values(static_cast<std::size_t>(shape.numel()) * size);
  std::int64_t index[kMaxRank] = {};
  std::int64_t at = 0;
  for (std::byte* to = values.data(); to != values.data() + values.size(); to += size) {
    std::memcpy(to, from + at * static_cast<std::int64_t>(size), size);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const std::int64_t stride = strides[static_cast<std::size_t>(axis)];
      at += stride;
      if (++index[axis] < shape[axis]) break;
      at -= shape[axis] * stride;
      index[axis] = 0;
    }
  }
  return values;
}

void require_strides(const char* op, const Shape& shape, std::span<const std::int64_t> strides) {
  if (strides.empty()) return;
  if (strides.size() != static_cast<std::size_t>(shape.rank())) {
    throw ArgumentError(
        fmt::format("{}: {} strides for a tensor {}", op, strides.size(), to_string(shape)));
  }
  double reach = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    reach += std::abs(static_cast<double>(strides[static_cast<std::size_t>(axis)])) *
             static_cast<double>(shape[axis]);
  }
  if (shape.numel() > 0 && reach >= 0x1p60) {
    throw ArgumentError(fmt::format("{}: strides [{}] of a tensor {} reach past 2^60 elements", op,
                                    fmt::join(strides, ", "), to_string(shape)));
  }
}

Tensor copied(const char* op, const Foreign& memory, bool contiguous, Device target) {
  const std::size_t bytes = static_cast<std::size_t>(memory.shape->numel()) * size_of(memory.dtype);
  DeviceEntry& entry = *memory.entry;
  if (entry.device.is_cpu()) {
    const auto* from = static_cast<const std::byte*>(memory.address.pointer());
    if (contiguous) return upload(from, *memory.shape, memory.dtype, target);
    const auto values = gathered(from, *memory.shape, memory.strides, size_of(memory.dtype));
    return upload(values.data(), *memory.shape, memory.dtype, target);
  }
  if (!contiguous) {
    throw ArgumentError(fmt::format(
        "{}: strides [{}] of a tensor {} on {} are not those of a row-by-row array; "
        "make it contiguous first",
        op, fmt::join(memory.strides, ", "), to_string(*memory.shape), to_string(entry.device)));
  }
  Buffer* buffer = allocate_buffer(entry, bytes);
  const Tensor copy = in_buffer(buffer, *memory.shape, memory.dtype);
  const std::lock_guard guard(entry.lock);
  MemoryTimes not_ours;
  entry.streams.copy(buffer->address, buffer->times, memory.address, not_ours, bytes);
  entry.backend.synchronize(entry.index);  // before the caller returns the memory to its owner
  return copy.to(target);
}

}  // namespace

Tensor from_foreign(const char* op, const Foreign& memory, std::optional<Device> copy_to,
                    Once give_back, SourceLocation place) {
  const Shape& shape = *memory.shape;
  DeviceEntry& entry = *memory.entry;
  const Device target = copy_to.value_or(entry.device);
  require_supported(op, memory.dtype, target);
  require_countable(op, shape, memory.dtype);
  require_strides(op, shape, memory.strides);
  if (shape.numel() == 0) return filled(shape, 0, memory.dtype, target);
  if (memory.address.base == nullptr)
    throw ArgumentError(fmt::format("{}: no memory for a tensor {}", op, to_string(shape)));
  const auto order = dense_order(shape, memory.strides);
  const bool contiguous = order && std::is_sorted(order->begin(), order->end());
  const std::uintptr_t alignment = entry.device.is_cpu() ? size_of(memory.dtype) : kGpuAlignment;
  const auto start = reinterpret_cast<std::uintptr_t>(memory.address.pointer());
  if (copy_to || !order || start % alignment != 0) {
    const Tensor result = copied(op, memory, contiguous, target);
    give_back.run();
    return result;
  }
  std::int64_t sizes[kMaxRank], back[kMaxRank];
  for (std::size_t i = 0; i < order->size(); ++i) {
    sizes[i] = shape[static_cast<int>((*order)[i])];
    back[(*order)[i]] = static_cast<std::int64_t>(i);
  }
  const auto rank = static_cast<std::size_t>(shape.rank());
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = &entry;
  buffer->address = memory.address;
  buffer->bytes = static_cast<std::size_t>(shape.numel()) * size_of(memory.dtype);
  buffer->pool_owned = false;
  buffer->foreign = memory.changes;
  buffer->deleter = give_back.take();
  const Tensor rows =
      in_buffer(buffer, Shape(std::span<const std::int64_t>(sizes, rank)), memory.dtype);
  return contiguous ? rows : rows.permute(std::span<const std::int64_t>(back, rank), place);
}

Tensor on_steady_memory(void* memory, const Shape& shape, DType dtype, Once give_back) {
  const Foreign steady{{memory, 0},      &device_entry(Device::cpu()), dtype, &shape, {},
                       /*changes=*/false};
  return from_foreign("on_steady_memory", steady, std::nullopt, std::move(give_back),
                      SourceLocation::here());
}

}  // namespace graph

Tensor from_blob(const void* data, const Shape& shape, DType dtype, BlobOptions options,
                 SourceLocation place) {
  void* memory = const_cast<void*>(data);  // Volta only reads it; the deleter may write
  graph::Once give_back([deleter = std::move(options.deleter), memory] {
    if (deleter) deleter(memory);
  });
  if (options.requires_grad) graph::require_differentiable("from_blob", dtype);
  const graph::Foreign foreign{
      {memory, 0}, &device_entry(Device::cpu()), dtype, &shape, options.strides};
  const Device device = options.device.value_or(Device::cpu());
  const bool copies = options.copy || !device.is_cpu();
  const Tensor result =
      graph::from_foreign("from_blob", foreign, copies ? std::optional(device) : std::nullopt,
                          std::move(give_back), place);
  return graph::finish(result, options.requires_grad);
}

}  // namespace volta
