// The peak memory of a call, for tests of untrusted input.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace volta {

// A line of /proc/self/status, in bytes.
inline std::uint64_t memory_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(key + ":")) continue;
    std::istringstream words(line.substr(key.size() + 1));
    std::uint64_t kilobytes = 0;
    words >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

// The largest growth of resident memory during the call. Memory that the process had used and freed
// before counts as new, because it is first returned to the system. Sanitizers pad blocks and keep
// freed memory, so nothing is measured under them, and the result is 0.
template <class F>
std::uint64_t peak_bytes(F&& call) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  call();
  return 0;
#else
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << '5';  // resets the highest value
  const std::uint64_t before = memory_status("VmRSS");
  call();
  const std::uint64_t most = memory_status("VmHWM");
  return most > before ? most - before : 0;
#endif
}

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace volta
