// One launch for the copies into or out of slots.
#include "backend/cuda/slot_copies.h"

#include <array>

namespace volta::cuda {

void SlotCopies::add(CUdeviceptr to, CUdeviceptr from, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (list_.count == list_.each.size()) enqueue();
  list_.add(to, from, bytes);
}

void SlotCopies::enqueue() {
  if (list_.count == 0) return;
  std::array<void*, 1> parameters{&list_};
  context_.check(context_.driver().cuLaunchKernel(function_, static_cast<unsigned>(list_.blocks), 1,
                                                  1, SlotCopyList::kThreads, 1, 1, 0, stream_,
                                                  parameters.data(), nullptr),
                 "copying into or out of slots");
  list_.count = list_.blocks = 0;
}

}  // namespace volta::cuda
