// The host's memory.
#pragma once

#include <cstdint>

namespace volta::platform {

// Bytes of memory the machine has. Systems promise more than that, and end the process later.
std::uint64_t physical_memory();

}  // namespace volta::platform
