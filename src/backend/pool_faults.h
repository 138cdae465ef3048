// For tests: makes any request to a pool fail as if memory had run out.
#pragma once

#include <cstddef>

#include "volta/export.h"

namespace volta {

// Called for every request; if it returns true, the pool reports that memory has run out. Null
// turns it off.
using RefuseAllocation = bool (*)(std::size_t bytes);
VOLTA_BACKEND_API void refuse_allocations(RefuseAllocation refuse);

}  // namespace volta
