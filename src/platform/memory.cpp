// The host's memory as the system reports it.
#include "platform/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

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

void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void discard(std::span<std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(part.data());
  const std::uintptr_t skipped = (page - at % page) % page;  // up to the first whole page
  if (part.size() < skipped + page) return;
  const std::span<std::byte> pages = part.subspan(skipped);
  ::madvise(pages.data(), pages.size() / page * page, MADV_DONTNEED);
}

}  // namespace volta::platform
