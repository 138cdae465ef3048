// The host's memory, as the system tells.
#include "platform/memory.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <string>

namespace volta::platform {

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::optional<std::uint64_t> available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    std::uint64_t kilobytes = 0;
    if (key == "MemAvailable:" && info >> kilobytes) return kilobytes * 1024;
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace volta::platform
