// Scratch memory of the calling thread.
#pragma once

#include <cstddef>

namespace volta::cpu {

// At least `bytes` bytes, aligned to 4096, valid until the thread's next request. The memory keeps
// what the thread last wrote there and starts as zeros.
std::byte* thread_scratch(std::size_t bytes);
// A second area, for data that a call keeps while its parts use the first one.
std::byte* thread_workspace(std::size_t bytes);

}  // namespace volta::cpu
