// Copies between tensors and the slots that stand for them in a captured graph. All copies of one
// direction go into one launch, because a driver call for each would take longer than the copies.
#pragma once

#include <cstdint>

#include "backend/cuda/context.h"
#include "backend/cuda/own_kernels.h"

namespace volta::cuda {

class SlotCopies {
 public:
  // The context must be current; `function` is slot_copy_kernel's.
  SlotCopies(const Context& context, CUfunction function, CUstream stream)
      : context_(context), function_(function), stream_(stream) {}
  // If the targets of two copies overlap, both must write the same values.
  void add(CUdeviceptr to, CUdeviceptr from, std::uint64_t bytes);
  void enqueue();  // launches the copies added since the last call

 private:
  const Context& context_;
  const CUfunction function_;
  const CUstream stream_;
  SlotCopyList list_{};
};

}  // namespace volta::cuda
