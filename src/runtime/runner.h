// Counters of the state that the runtime keeps for a device. Submitting itself is declared in
// graph/record/evaluation.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "volta/device.h"
#include "volta/export.h"

namespace volta::plan {

// Sizes of a device's caches.
struct CacheStats {
  std::uint64_t runs = 0;  // plans run so far
  std::size_t plans = 0;
  std::size_t groupings = 0;
  std::size_t sites = 0;           // plans that check indices
  std::size_t programs = 0;        // compiled kernel programs
  std::uint64_t arena_bytes = 0;   // memory of the arenas of all streams, which hold temporaries
  std::uint64_t latest_arena = 0;  // arena bytes that the most recently used plan needs
};
VOLTA_BACKEND_API CacheStats cache_stats(Device device);

// The number of plans kept per device; the least recently used are evicted first.
inline constexpr std::size_t kMaxPlans = 1024;

}  // namespace volta::plan
