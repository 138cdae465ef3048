// Copies between tensors and the slots that a captured graph has in their place: all that go one
// way in one launch, since a call of the driver for each takes longer than the copies do.
#pragma once

#include <cstdint>

#include "backend/cuda/context.h"
#include "backend/cuda/own_kernels.h"

namespace volta::cuda {

class SlotCopies {
 public:
  // The context is current; `function` is slot_copy_kernel's.
  SlotCopies(const Context& context, CUfunction function, CUstream stream)
      : context_(context), function_(function), stream_(stream) {}
  // Where the targets of two overlap, both write the same values.
  void add(CUdeviceptr to, CUdeviceptr from, std::uint64_t bytes);
  void enqueue();  // those added since

 private:
  const Context& context_;
  const CUfunction function_;
  const CUstream stream_;
  SlotCopyList list_{};
};

}  // namespace volta::cuda
