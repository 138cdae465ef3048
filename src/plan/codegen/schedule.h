// Chooses how a finished kernel program is mapped to threads.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::plan {

// The schedule of a program that is bound to `ints`. `largest`: elements of its largest buffer.
// massively_parallel: for a GPU. aligned: whether all buffers begin where vectors may be loaded. A
// function of its arguments alone, and of sizes only by classes:
// few kernels serve every size.
VOLTA_BACKEND_API kernel::Schedule choose_schedule(const kernel::Program& program,
                                                   const std::vector<std::int64_t>& ints,
                                                   std::int64_t largest, bool massively_parallel,
                                                   bool aligned = true);

}  // namespace volta::plan
