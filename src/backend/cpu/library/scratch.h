// Memory of the calling thread.
#pragma once

#include <cstddef>

namespace volta::cpu {

// At least that many bytes, at a multiple of 4096, until the thread asks again. What is in it is
// what the thread left there, zeros at first.
std::byte* thread_scratch(std::size_t bytes);
// Another piece, for what a call keeps while its parts use the first.
std::byte* thread_workspace(std::size_t bytes);

}  // namespace volta::cpu
