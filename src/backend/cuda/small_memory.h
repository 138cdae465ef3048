// Small blocks of device memory and of page-locked host memory, for what a plan needs besides the
// buffers of the pool: arguments, tables, error records. The driver waits for the device when it
// frees memory, and plans for new sizes are made and dropped all the time. So blocks are cut from
// chunks and used again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/context.h"

namespace volta::cuda {

// `Memory` is DeviceMemory or PinnedMemory. Thread-safe. Outlives its blocks.
template <class Memory>
class SmallMemory {
 public:
  // A block; empty if default-constructed or moved from. Work that uses it must have ended when it
  // is destroyed.
  class Block {
   public:
    Block() = default;
    ~Block() {
      if (owner_ != nullptr) owner_->give_back(*this);
    }
    Block(Block&& other) noexcept { swap(other); }
    Block& operator=(Block&& other) noexcept {
      Block(std::move(other)).swap(*this);
      return *this;
    }

    CUdeviceptr device() const { return address_of(memory()) + offset_; }
    void* host() const
      requires requires(const Memory& memory) { memory.host(); }
    {
      return static_cast<std::byte*>(memory().host()) + offset_;
    }
    explicit operator bool() const { return address_of(memory()) != 0; }

   private:
    friend class SmallMemory;
    static CUdeviceptr address_of(const DeviceMemory& memory) { return memory.address(); }
    static CUdeviceptr address_of(const PinnedMemory& memory) { return memory.device(); }
    const Memory& memory() const { return shared_ != nullptr ? *shared_ : own_; }
    void swap(Block& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(shared_, other.shared_);
      std::swap(own_, other.own_);
      std::swap(offset_, other.offset_);
      std::swap(size_class_, other.size_class_);
    }

    SmallMemory* owner_ = nullptr;
    const Memory* shared_ = nullptr;  // the chunk
    Memory own_;                      // of a large block
    std::size_t offset_ = 0, size_class_ = 0;
  };

  explicit SmallMemory(const Context& context) : context_(context) {}
  SmallMemory(const SmallMemory&) = delete;
  SmallMemory& operator=(const SmallMemory&) = delete;

  // Page-locked blocks are zeroed. Throws what the constructor of `Memory` throws.
  Block take(std::size_t bytes) {
    Block block;
    if (bytes > kMostBytes) {
      block.own_ = Memory(context_, bytes);
      return block;
    }
    const std::size_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
    const std::size_t size_class = static_cast<std::size_t>(std::countr_zero(size / kLeastBytes));
    {
      const std::lock_guard lock(mutex_);
      if (free_[size_class].empty()) cut(size_class, size);
      const Place place = free_[size_class].back();
      free_[size_class].pop_back();
      block.owner_ = this;
      block.shared_ = place.chunk;
      block.offset_ = place.offset;
      block.size_class_ = size_class;
    }
    if constexpr (requires { block.host(); }) std::memset(block.host(), 0, size);
    return block;
  }

 private:
  static constexpr std::size_t kLeastBytes = 256, kMostBytes = std::size_t{64} << 10,
                               kChunkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kClasses =
      static_cast<std::size_t>(std::countr_zero(kMostBytes / kLeastBytes)) + 1;
  struct Place {
    const Memory* chunk;
    std::size_t offset;
  };

  // Cuts blocks of a size from the chunk in use, or from a new one.
  void cut(std::size_t size_class, std::size_t size) {
    if (chunks_.empty() || cut_ + size > kChunkBytes) {
      chunks_.emplace_back(context_, kChunkBytes);
      cut_ = 0;
    }
    // There is room for every block of the size, so that giving one back cannot fail.
    std::size_t& blocks = blocks_[size_class];
    if (free_[size_class].capacity() <= blocks) free_[size_class].reserve(2 * blocks + 8);
    free_[size_class].push_back({&chunks_.back(), cut_});
    ++blocks;
    cut_ += size;
  }
  void give_back(const Block& block) noexcept {
    const std::lock_guard lock(mutex_);
    free_[block.size_class_].push_back({block.shared_, block.offset_});
  }

  const Context& context_;
  std::mutex mutex_;
  std::deque<Memory> chunks_;
  std::size_t cut_ = 0;  // bytes of the last chunk that are in blocks
  std::array<std::vector<Place>, kClasses> free_;
  std::array<std::size_t, kClasses> blocks_{};  // of each size, free or in use
};

}  // namespace volta::cuda
