// Scratch memory of the calling thread, grown when a launch needs more.
#include "backend/cpu/library/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/thread_owned.h"
#include "volta/error.h"

namespace volta::cpu {
namespace {

template <int number>
struct Scratch {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory;
  std::size_t size = 0;
};

template <int number>
std::byte* grown(std::size_t bytes) {
  auto& [memory, size] = ThreadOwned<Scratch<number>>::get();
  if (size < bytes) {
    const std::size_t rounded = std::max<std::size_t>((bytes + 4095) / 4096 * 4096, 64 * 1024);
    size = 0;  // in case the allocation fails
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    if (memory == nullptr)
      throw OutOfMemory("cpu: there is no memory for " + std::to_string(rounded) +
                        " bytes of a thread's scratch memory");
    // Registers may be read before they are written, if a block ends inside a vector.
    std::fill_n(memory.get(), rounded, std::byte{0});
    size = rounded;
  }
  return memory.get();
}

}  // namespace

std::byte* thread_scratch(std::size_t bytes) { return grown<0>(bytes); }
std::byte* thread_workspace(std::size_t bytes) { return grown<1>(bytes); }

}  // namespace volta::cpu
