// Recycled host memory for tensors, so that the batches of every step reuse pages that are already
// mapped.
#include "volta/detail/host_tensor.h"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "backend/pinned_cache.h"
#include "backend/registry.h"
#include "runtime/transfer/blob.h"
#include "volta/creation.h"

namespace volta::detail {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kMaxFreeBytes = std::size_t{64} << 20;

class Recycler {
 public:
  ~Recycler() {
    for (const auto& [bytes, memory] : free_) ::operator delete(memory, kAlignment);
  }

  std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard guard(lock_);
      const auto found = free_.find(bytes);
      if (found != free_.end()) {
        void* memory = found->second;
        free_.erase(found);
        free_bytes_ -= bytes;
        return static_cast<std::byte*>(memory);
      }
    }
    return static_cast<std::byte*>(::operator new(bytes, kAlignment));
  }

  void give_back(void* memory, std::size_t bytes) {
    {
      const std::lock_guard guard(lock_);
      if (free_bytes_ + bytes <= kMaxFreeBytes) {
        free_.emplace(bytes, memory);
        free_bytes_ += bytes;
        return;
      }
    }
    ::operator delete(memory, kAlignment);
  }

 private:
  std::mutex lock_;
  std::multimap<std::size_t, void*> free_;
  std::size_t free_bytes_ = 0;
};

// Shared with the tensors, which may outlive the static variables of this file.
const std::shared_ptr<Recycler>& recycler() {
  static const auto shared = std::make_shared<Recycler>();
  return shared;
}

}  // namespace

HostTensor host_tensor(const Shape& shape, DType dtype, Device reader) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (bytes == 0) return {zeros(shape, {.dtype = dtype, .device = Device::cpu()}), nullptr};
  if (!reader.is_cpu()) {
    auto block = std::make_shared<PinnedBlock>(device_entry(reader).pinned.take(bytes));
    if (void* pinned = block->memory()) {
      graph::Once give_back([block] {});
      return {graph::on_steady_memory(pinned, shape, dtype, std::move(give_back)),
              static_cast<std::byte*>(pinned)};
    }
  }
  const std::shared_ptr<Recycler>& memory = recycler();
  std::byte* data = memory->take(bytes);
  graph::Once give_back([memory, data, bytes] { memory->give_back(data, bytes); });
  return {graph::on_steady_memory(data, shape, dtype, std::move(give_back)), data};
}

}  // namespace volta::detail
