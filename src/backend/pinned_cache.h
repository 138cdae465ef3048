// A cache of page-locked host memory: allocating it from the driver takes milliseconds.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "backend/backend.h"
#include "volta/export.h"

namespace volta {

class PinnedCache;

// A block of page-locked memory; empty if the family has none or no more of it.
class VOLTA_BACKEND_API PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(PinnedCache& cache, void* memory, std::size_t bytes)
      : cache_(&cache), memory_(memory), bytes_(bytes) {}
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept
      : cache_(other.cache_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    std::swap(cache_, other.cache_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* memory() const { return memory_; }

 private:
  PinnedCache* cache_ = nullptr;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// The sizes of blocks are powers of two. The cache is thread-safe and outlives its blocks.
class VOLTA_BACKEND_API PinnedCache {
 public:
  // The most that is kept for reuse.
  static constexpr std::size_t kKeptBytes = std::size_t{256} << 20;

  PinnedCache(Backend& backend, int device) : backend_(backend), device_(device) {}
  ~PinnedCache();
  PinnedCache(const PinnedCache&) = delete;
  PinnedCache& operator=(const PinnedCache&) = delete;

  PinnedBlock take(std::size_t bytes);

 private:
  friend class PinnedBlock;
  void give_back(void* memory, std::size_t bytes) noexcept;

  Backend& backend_;
  const int device_;
  std::mutex mutex_;
  std::multimap<std::size_t, void*> kept_;  // by size
  std::size_t kept_bytes_ = 0;
};

}  // namespace volta
