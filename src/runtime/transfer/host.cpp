// Transfers between host and devices: observe(), which computes and downloads a value, and uploads.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backend/fork_guard.h"
#include "backend/registry.h"
#include "core/convert.h"
#include "core/profiling.h"
#include "core/slab.h"
#include "graph/record/creation.h"
#include "graph/record/evaluation.h"
#include "graph/record/recorder.h"
#include "platform/memory.h"
#include "runtime/indices/index_checks.h"
#include "runtime/transfer/transfers.h"
#include "volta/error.h"

namespace volta::graph {

void require_host_memory(const char* op, const Tensor& tensor, std::size_t element_bytes) {
  const std::int64_t count = tensor.numel();
  if (static_cast<std::uint64_t>(count) <= platform::physical_memory() / element_bytes) return;
  throw OutOfMemory(fmt::format("{}: {} elements do not fit into memory", op, count));
}

namespace {
std::unique_ptr<HostCopy> host_copy(const Node& node, std::size_t bytes) {
  if (bytes <= platform::physical_memory()) return std::make_unique<HostCopy>(bytes);
  throw OutOfMemory(fmt::format("the values of {} {} do not fit into the host's memory",
                                to_string(node.shape), name_of(node.dtype)));
}

// Copies bytes of a computed node from its device. Waits for the work that writes them; `guard`
// holds the device's lock.
void download(const Node& node, std::uint64_t offset, std::span<std::byte> to,
              std::unique_lock<std::recursive_mutex>& guard) {
  DeviceEntry& entry = *node.entry;
  const profiling::HostSpan span("waiting for values");
  Address source = node.buffer->address;
  source.offset += offset;
  // Other threads can submit during the download; the caller's reference keeps the node unchanged.
  if (entry.streams.several()) guard.unlock();
  {
    const Transfer transfer(Transfer::Direction::ToHost, entry.device, to.size());
    entry.streams.download(to.data(), source, node.buffer->times, to.size());
  }
  if (!guard.owns_lock()) guard.lock();
}
}  // namespace

std::span<const std::byte> observe(Node* node) {
  ensure_computed(node);
  const std::size_t bytes = static_cast<std::size_t>(node->shape.numel()) * size_of(node->dtype);
  DeviceEntry& entry = *node->entry;
  std::unique_lock guard(entry.lock);
  if (node->state.load(std::memory_order_acquire) == NodeState::Constant) {
    if (!node->host) {
      node->host = host_copy(*node, bytes);
      for (std::int64_t i = 0; i < node->shape.numel(); ++i) {
        write_element(node->host->bytes.data() + static_cast<std::size_t>(i) * size_of(node->dtype),
                      node->dtype, node->value, node->integer);
      }
    }
    return node->host->bytes;
  }
  if (entry.device.is_cpu()) {
    verify_indices(*node);
    return {static_cast<const std::byte*>(node->buffer->address.pointer()), bytes};
  }
  if (!node->host) {
    require_not_forked(entry);
    throw_known_index_error(*node);
    auto host = host_copy(*node, bytes);
    if (bytes == 0) {
      // There are no values to wait for, but an index may be wrong.
      const profiling::HostSpan span("waiting for values");
      entry.backend.synchronize(entry.index);
    } else {
      download(*node, 0, host->bytes, guard);
    }
    verify_indices(*node);
    if (!node->host) node->host = std::move(host);  // unless another thread was faster
  } else if (node->buffer == nullptr) {             // the CPU computed the value
    verify_indices(*node);
  }
  return node->host->bytes;
}

void read_element(Node* node, std::int64_t element, std::byte* to) {
  const std::size_t size = size_of(node->dtype), offset = static_cast<std::size_t>(element) * size;
  DeviceEntry& entry = *node->entry;
  if (!entry.device.is_cpu()) {
    std::unique_lock guard(entry.lock);
    if (!node->host && node->buffer != nullptr) {
      require_not_forked(entry);
      return download(*node, offset, {to, size}, guard);
    }
  }
  std::memcpy(to, observe(node).data() + offset, size);
}

Tensor upload(const void* bytes, const Shape& shape, DType dtype, Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::size_t size = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  Buffer* buffer = allocate_upload(entry, size);
  if (size > 0) {
    try {
      const profiling::HostSpan span("uploading");
      const Transfer transfer(Transfer::Direction::ToDevice, device, size);
      entry.streams.upload(buffer->address, buffer->times, bytes, size);
    } catch (...) {
      release(buffer);
      throw;
    }
  }
  return in_buffer(buffer, shape, dtype);
}

Tensor on_host(Node* node) {
  const std::span<const std::byte> bytes = observe(node);
  Buffer* buffer = Slab<Buffer>::make();
  buffer->entry = &device_entry(Device::cpu());
  // Never written to, because the pool does not own it.
  buffer->address = {const_cast<std::byte*>(bytes.data()), 0};
  buffer->bytes = bytes.size();
  buffer->pool_owned = false;
  buffer->deleter = [shared = node->host->memory] {};
  return in_buffer(buffer, node->shape, node->dtype);
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
  return in_buffer(buffer, x.shape(), x.dtype());
}

}  // namespace volta::graph
