// Running batches: finding or building the plan, binding memory, launching, and what happens when
// that fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/segment.h"
#include "volta/execution.h"

namespace volta::plan {

// Runs everything pending in the segment. On failure parameters assigned in it get their last good
// value back, what else is held of it stays pending but leaves the segment, and the error is
// thrown.
void submit_segment(graph::Segment& segment);

// The same for the sake of one node: if the whole sweep fails, that node's own cone is tried alone,
// and the error is thrown only if that fails too.
void submit_segment(graph::Segment& segment, graph::Node* observed);

// Before the device's lock is taken for a submit: waits where too much of the segment's stream is
// under way (Lanes::make_room).
void make_room(const DeviceEntry& entry, const graph::Segment& segment);

// What submitting the segment now would run. `saved_for`: what tapes keep of it (see explain.h).
Explanation explain_segment(
    graph::Segment& segment,
    const std::unordered_map<const graph::Node*, std::vector<std::string>>& saved_for);

// What a device keeps between submits.
struct CacheStats {
  std::uint64_t runs = 0;  // plans run so far
  std::size_t plans = 0;
  std::size_t groupings = 0;
  std::size_t sites = 0;           // plans that check indices
  std::size_t programs = 0;        // compiled
  std::uint64_t arena_bytes = 0;   // memory that temporaries of all plans share, lane by lane
  std::uint64_t latest_arena = 0;  // what the plan used last needs of it
};
VOLTA_BACKEND_API CacheStats cache_stats(Device device);

// Plans kept per device; the least recently used go first.
inline constexpr std::size_t kMaxPlans = 1024;

}  // namespace volta::plan
