// The memory of this process: resident in RAM, and allocated from the heap.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

inline std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// The bytes that are allocated and not freed, in the arenas of all threads. Unlike resident memory
// they do not depend on holes that earlier tests left in the heap. They are not available for the
// sanitizers' heaps.
inline std::uint64_t heap_bytes_in_use() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}
