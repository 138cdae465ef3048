// The memory of this process that lies in RAM.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

inline std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}
