// Splits long reductions into chunks that are computed in parallel.
#pragma once

#include <cstdint>

#include "plan/lower/extent.h"
#include "volta/export.h"

namespace volta::plan {

// Returns the number of chunks of a reduction; 1 means that it is not split. `innermost` is true
// for reductions along rows, false along columns.
VOLTA_BACKEND_API std::int64_t reduction_chunks(std::int64_t extent, std::int64_t results,
                                                bool innermost, bool massively_parallel);
// The number of chunks of a reduction whose sizes may be open.
Extent open_reduction_chunks(Extent extent, Extent results, bool innermost,
                             bool massively_parallel);
// Returns the largest number of chunks in (wanted / 2, wanted] that have equal lengths that are
// multiples of `unit`, so that nothing is padded; `wanted` if there is none.
std::int64_t even_chunks(std::int64_t extent, std::int64_t wanted, std::int64_t unit);
Extent open_even_chunks(Extent extent, Extent wanted, Extent unit);
// Whether a kernel that reduces this many rows, and also processes their elements, keeps the device
// busy.
bool keeps_busy(std::int64_t extent, std::int64_t results, bool innermost, bool massively_parallel);

// In elements: chunks of a row begin at whole cache lines.
inline constexpr std::int64_t kChunkUnit = 32;

}  // namespace volta::plan
