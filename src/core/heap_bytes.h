// Estimates of the memory that containers take from the heap, for caches that are bounded in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace volta {

// The bytes that the heap adds to an allocation.
inline constexpr std::uint64_t kHeapOverhead = 16;

template <class T>
std::uint64_t heap_bytes(const std::vector<T>& values) {
  return values.capacity() == 0 ? 0 : values.capacity() * sizeof(T) + kHeapOverhead;
}
inline std::uint64_t heap_bytes(const std::vector<bool>& values) { return values.capacity() / 8; }
inline std::uint64_t heap_bytes(const std::string& text) {
  return text.capacity() < sizeof(std::string) ? 0 : text.capacity() + kHeapOverhead;
}

}  // namespace volta
