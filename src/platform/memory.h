// The host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace volta::platform {

// The machine's memory in bytes. Systems promise more and later kill a process that uses it.
std::uint64_t physical_memory();
// The memory that can be used without swapping, or nothing if the system does not report it.
std::optional<std::uint64_t> available_memory();

// Returns free pages of the heap to the system, where the C library can.
void return_free_memory();

// Returns the whole pages inside this part of a block of the heap to the system. Their content is
// lost; they read as zeros.
void discard(std::span<std::byte> part);

}  // namespace volta::platform
