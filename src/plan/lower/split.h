// How long reductions are cut into chunks that are computed side by side.
#pragma once

#include <cstdint>

#include "plan/lower/extent.h"
#include "volta/export.h"

namespace volta::plan {

// Into how many chunks a reduction is cut; 1: not at all. `innermost`: along rows, not columns.
VOLTA_BACKEND_API std::int64_t reduction_chunks(std::int64_t extent, std::int64_t results,
                                                bool innermost, bool massively_parallel);
// The same of sizes that may be open.
Extent open_reduction_chunks(Extent extent, Extent results, bool innermost,
                             bool massively_parallel);
// The largest number of chunks in (wanted / 2, wanted] that are all equally long, multiples of
// `unit`, so that nothing is padded; `wanted` where there is none.
std::int64_t even_chunks(std::int64_t extent, std::int64_t wanted, std::int64_t unit);
Extent open_even_chunks(Extent extent, Extent wanted, Extent unit);
// Whether a kernel that reduces so many rows, and does more with their elements, keeps the device
// busy.
bool keeps_busy(std::int64_t extent, std::int64_t results, bool innermost, bool massively_parallel);

// Elements: chunks of a row begin at whole lines of memory.
inline constexpr std::int64_t kChunkUnit = 32;

}  // namespace volta::plan
