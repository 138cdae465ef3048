// Scratch memory of the calling thread.
#pragma once

#include <cstddef>

namespace volta::cpu {

// Returns at least `bytes` bytes, aligned to 4096 and valid until the thread's next request. The
// memory starts as zeros and keeps what the thread last wrote there.
std::byte* thread_scratch(std::size_t bytes);
// A second area, for data that a call keeps while its parts use the first one.
std::byte* thread_workspace(std::size_t bytes);

}  // namespace volta::cpu
