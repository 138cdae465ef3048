// The counters.
#include "volta/counters.h"

#include <atomic>
#include <mutex>
#include <utility>

#include "core/counting.h"
#include "core/separate_counters.h"
#include "platform/thread_local.h"

namespace volta {
namespace {

// Calls visit(field of Counters, live counter) for every counter.
template <class Visit>
void for_each_counter(Counters& totals, LiveCounters& live, Visit visit) {
  visit(totals.submits, live.submits);
  visit(totals.plans_built, live.plans_built);
  visit(totals.plans_linked, live.plans_linked);
  visit(totals.stretches_planned, live.stretches_planned);
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
  static auto* live = new LiveCounters;  // never destroyed: usable until the process ends
  return *live;
}

VOLTA_INITIAL_EXEC thread_local LiveCounters* separate = nullptr;

}  // namespace

LiveCounters& live_counters() { return separate != nullptr ? *separate : shared_counters(); }

SeparateCounters::SeparateCounters() : outer_(std::exchange(separate, &counts_)) {}
SeparateCounters::~SeparateCounters() { separate = outer_; }

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

}  // namespace volta
