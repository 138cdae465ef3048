// The cache of page-locked memory.
#include "backend/pinned_cache.h"

#include <algorithm>
#include <bit>

namespace volta {
namespace {
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;
}

PinnedBlock::~PinnedBlock() {
  if (memory_ != nullptr) cache_->give_back(memory_, bytes_);
}

PinnedCache::~PinnedCache() {
  for (const auto& [bytes, memory] : kept_) backend_.release_pinned(device_, memory);
}

PinnedBlock PinnedCache::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
  {
    const std::lock_guard guard(mutex_);
    if (const auto found = kept_.find(size); found != kept_.end()) {
      void* memory = found->second;
      kept_.erase(found);
      kept_bytes_ -= size;
      return {*this, memory, size};
    }
  }
  void* memory = backend_.allocate_pinned(device_, size);
  if (memory == nullptr) return {};
  return {*this, memory, size};
}

void PinnedCache::give_back(void* memory, std::size_t bytes) noexcept {
  try {
    const std::lock_guard guard(mutex_);
    if (kept_bytes_ + bytes <= kKeptBytes) {
      kept_.emplace(bytes, memory);
      kept_bytes_ += bytes;
      return;
    }
  } catch (...) {  // no host memory for the table entry: the block is freed
  }
  backend_.release_pinned(device_, memory);
}

}  // namespace volta
