// The host's memory, as the system tells.
#include "platform/memory.h"

#include <unistd.h>

namespace volta::platform {

std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace volta::platform
