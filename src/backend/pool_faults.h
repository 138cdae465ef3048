// For tests: memory that runs out when a test says so, at any request to a pool.
#pragma once

#include <cstddef>

#include "volta/export.h"

namespace volta {

// Asked at every request; where it says true the pool has no more memory. Null: nothing is asked.
using RefuseAllocation = bool (*)(std::size_t bytes);
VOLTA_BACKEND_API void refuse_allocations(RefuseAllocation refuse);

}  // namespace volta
