// The host's memory.
#pragma once

#include <cstdint>
#include <optional>

namespace volta::platform {

// The machine's memory in bytes. Systems promise more and later kill a process that uses it.
std::uint64_t physical_memory();
// The memory that can be used without swapping, or nothing if the system does not report it.
std::optional<std::uint64_t> available_memory();

// Returns free pages of the heap to the system, where the C library can.
void return_free_memory();

}  // namespace volta::platform
