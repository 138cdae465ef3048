// How much memory a call takes at most, for tests of what input of others may ask for.
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

// By how much the resident memory grows during the call, at its highest. Memory that the process
// had and freed before counts as new: it is given back first. Sanitizers put space around blocks
// and keep what was freed: under them nothing is measured, and the result is 0.
template <class F>
std::uint64_t peak_bytes(F&& call) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  call();
  return 0;
#else
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << '5';  // the highest value starts again
  const std::uint64_t before = memory_status("VmRSS");
  call();
  const std::uint64_t most = memory_status("VmHWM");
  return most > before ? most - before : 0;
#endif
}

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace volta
