// Chooses how a finished kernel program is mapped to threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::plan {

// Returns the schedule of a program that is bound to `ints`. `largest` is the number of elements of
// its largest buffer, and `massively_parallel` is true for a GPU. The result depends only on the
// arguments, and on sizes only by classes, so that few kernels serve every size.
VOLTA_BACKEND_API kernel::Schedule choose_schedule(const kernel::Program& program,
                                                   const std::vector<std::int64_t>& ints,
                                                   std::int64_t largest, bool massively_parallel);

}  // namespace volta::plan
