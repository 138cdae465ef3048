// The host's memory.
#pragma once

#include <cstdint>
#include <optional>

namespace volta::platform {

// Bytes of memory the machine has. Systems promise more than that, and end the process later.
std::uint64_t physical_memory();
// Of those, what could be used without moving others out; nothing where the system does not tell.
std::optional<std::uint64_t> available_memory();

}  // namespace volta::platform
