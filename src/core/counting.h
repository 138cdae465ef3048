// The live counters behind volta::counters(). Relaxed atomics: totals, not synchronisation.
#pragma once

#include <atomic>
#include <cstdint>

#include "volta/export.h"

namespace volta {

struct LiveCounters {
  using Count = std::atomic<std::uint64_t>;
  Count submits{0}, plans_built{0}, compilations{0}, kernels_loaded{0}, launches{0},
      library_calls{0}, graph_launches{0}, transfers{0}, bytes_to_device{0}, bytes_to_host{0},
      allocations{0}, fallbacks{0}, nodes_recorded{0};
};
VOLTA_BACKEND_API LiveCounters& live_counters();

inline void count(LiveCounters::Count& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace volta
