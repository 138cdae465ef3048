// A sort as launches of the kernels in kernel/emit/sort_templates.h, for backends that compile C.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/steps.h"
#include "kernel/emit/sort_templates.h"

namespace volta {

struct SortLaunch {
  kernel::KernelSource source;
  int threads = 0;
  std::int64_t blocks = 0;
  std::vector<plan::BufferRef> buffers;
  std::vector<std::int64_t> ints;  // 64-bit
};

// The launches in order; none if there is nothing to sort.
VOLTA_BACKEND_API std::vector<SortLaunch> sort_launches(const plan::SortStep& step,
                                                        kernel::Dialect dialect);

// The scratch memory that the launches need at SortStep::scratch.
VOLTA_BACKEND_API std::uint64_t sort_scratch_bytes(const plan::SortStep& step);

}  // namespace volta
