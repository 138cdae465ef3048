// Memory that a reader fills and tensors then use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "volta/error.h"

namespace volta::io {

// Uninitialised memory; pages that are never written take no memory. Copies share it.
class OwnedBytes {
 public:
  OwnedBytes() = default;
  // Throws OutOfMemory with a message that begins with `source`.
  OwnedBytes(std::uint64_t size, const std::string& source) : size_(size) {
    if (size == 0) return;
    void* memory = ::operator new(size, kAlignment, std::nothrow);
    if (memory == nullptr)
      throw OutOfMemory(source + ": there is no memory for " + std::to_string(size) + " bytes");
    memory_ = {static_cast<std::byte*>(memory),
               [](std::byte* bytes) { ::operator delete(bytes, kAlignment); }};
  }

  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

}  // namespace volta::io
