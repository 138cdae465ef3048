// The live counters behind volta::counters(). They are relaxed atomics: they count and do not
// synchronise.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "platform/fork.h"
#include "volta/export.h"

namespace volta {

// A counter in which each writer has its own shard, so that counting needs no atomic
// read-modify-write.
class VOLTA_BACKEND_API ShardedCount {
 public:
  using Shard = std::atomic<std::uint64_t>;
  Shard& add_shard();  // never removed
  std::uint64_t total() const;
  void reset();

 private:
  std::uint64_t sum() const;
  mutable platform::ForkMutex mutex_;
  std::deque<Shard> shards_;
  std::uint64_t before_ = 0;  // the sum at the last reset
};

struct LiveCounters {
  using Count = std::atomic<std::uint64_t>;
  Count submits{0}, plans_built{0}, plans_linked{0}, stretches_planned{0}, compilations{0},
      kernels_loaded{0}, timings{0}, launches{0}, library_calls{0}, graph_launches{0}, transfers{0},
      bytes_to_device{0}, bytes_to_host{0}, allocations{0};
  ShardedCount nodes_recorded;
};
VOLTA_BACKEND_API LiveCounters& live_counters();

inline void count(LiveCounters::Count& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}
// Increments a shard that no other thread writes to at the time.
inline void count_alone(ShardedCount::Shard& shard) {
  shard.store(shard.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace volta
