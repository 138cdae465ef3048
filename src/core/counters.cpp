// The counters, and the memory statistics of each device's pool.
#include "volta/counters.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "backend/pool.h"
#include "core/count_aside.h"
#include "core/counting.h"
#include "core/registry.h"
#include "platform/thread_local.h"

namespace volta {
namespace {

// Calls visit(field of Counters, live counter) for every counter.
template <class Visit>
void for_each_counter(Counters& totals, LiveCounters& live, Visit visit) {
  visit(totals.submits, live.submits);
  visit(totals.plans_built, live.plans_built);
  visit(totals.compilations, live.compilations);
  visit(totals.timings, live.timings);
  visit(totals.kernels_loaded, live.kernels_loaded);
  visit(totals.launches, live.launches);
  visit(totals.library_calls, live.library_calls);
  visit(totals.graph_launches, live.graph_launches);
  visit(totals.transfers, live.transfers);
  visit(totals.bytes_to_device, live.bytes_to_device);
  visit(totals.bytes_to_host, live.bytes_to_host);
  visit(totals.allocations, live.allocations);
}

LiveCounters& shared_counters() {
  static auto* live = new LiveCounters;  // usable until the process ends
  return *live;
}

VOLTA_INITIAL_EXEC thread_local LiveCounters* aside = nullptr;

}  // namespace

LiveCounters& live_counters() { return aside != nullptr ? *aside : shared_counters(); }

CountAside::CountAside() : outer_(std::exchange(aside, &counts_)) {}
CountAside::~CountAside() { aside = outer_; }

ShardedCount::Shard& ShardedCount::add_shard() {
  const std::lock_guard guard(mutex_);
  return shards_.emplace_back(0);
}

std::uint64_t ShardedCount::sum() const {
  std::uint64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.load(std::memory_order_relaxed);
  return sum;
}

std::uint64_t ShardedCount::total() const {
  const std::lock_guard guard(mutex_);
  return sum() - before_;
}

void ShardedCount::reset() {
  const std::lock_guard guard(mutex_);
  before_ = sum();
}

Counters counters() {
  Counters totals;
  for_each_counter(totals, shared_counters(), [](std::uint64_t& total, LiveCounters::Count& live) {
    total = live.load(std::memory_order_relaxed);
  });
  totals.nodes_recorded = shared_counters().nodes_recorded.total();
  return totals;
}

void reset_counters() {
  Counters unused;
  for_each_counter(unused, shared_counters(), [](std::uint64_t&, LiveCounters::Count& live) {
    live.store(0, std::memory_order_relaxed);
  });
  shared_counters().nodes_recorded.reset();
}

MemoryStats memory_stats(Device device) { return device_entry(device).pool.stats(); }

void reset_peak_memory(Device device) { device_entry(device).pool.reset_peak(); }

void set_memory_limit(Device device, std::uint64_t bytes) {
  device_entry(device).pool.set_limit(bytes);
}

void empty_cache(Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard lock(entry.lock);  // frees device memory: not in the middle of a submission
  if (entry.trim != nullptr) entry.trim(entry);
  entry.pool.empty_cache();
}

}  // namespace volta
