// Bounds for what the runtime caches for a device: the bytes of plans and of what they share, and
// the small outputs that plans keep.
#pragma once

#include <cstdint>

#include "plan/plan.h"
#include "runtime/device_runtime.h"

namespace volta::plan {

// The limit for pool memory that the plans of a device keep for their small outputs.
inline constexpr std::uint64_t kMaxKeptOutputs = std::uint64_t{2} << 20;

// Estimates the memory outside the pool that a plan and its executable hold.
HeldBytes held_by(const Plan& plan);

// Counts the memory that a cached plan holds now. It is called when the plan was added and after it
// ran, because a run may capture a graph. Then evicts the least recently used plans until the
// caches are within their bounds; the most recently used plan always stays.
void count_plan(DeviceRuntime& runtime, DeviceRuntime::Entry& entry);
// Evicts a plan.
void evict_plan(DeviceRuntime& runtime, std::list<DeviceRuntime::Entry>::iterator entry);
// Evicts the plan used longest ago.
void evict_oldest(DeviceRuntime& runtime);
// Implements DeviceEntry::evict.
void evict(DeviceEntry& entry, bool all);

// Whether the plan may keep another output of this many bytes. Makes room by releasing the outputs
// of less recently used plans.
bool may_keep(DeviceRuntime& runtime, const Plan& plan, std::uint64_t bytes);

}  // namespace volta::plan
