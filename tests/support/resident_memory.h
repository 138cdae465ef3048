// The memory of this process: what lies in RAM, and what the program holds of the heap.
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

// Allocated and not freed, in all threads' arenas. Unlike resident memory it does not depend on the
// holes that earlier tests left in the heap. The sanitizers' heaps say nothing here.
inline std::uint64_t heap_bytes_in_use() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}
