// The bounds of what the runtime keeps for a device: bytes of plans and of what they share, and the
// small outputs that plans keep.
#pragma once

#include <cstdint>

#include "plan/plan.h"
#include "runtime/device_runtime.h"

namespace volta::plan {

// The most memory of the pool that the plans of a device keep for their small outputs.
inline constexpr std::uint64_t kMaxKeptOutputs = std::uint64_t{2} << 20;

// An estimate of the memory that a plan holds outside the pool, with its executable.
HeldBytes held_by(const Plan& plan);

// Counts what a plan of the cache holds now; to be called when it has been added and after it ran,
// because a run may capture a graph. Then evicts the plans used longest ago until the caches are
// within their bounds; the plan used last always stays.
void count_plan(DeviceRuntime& runtime, DeviceRuntime::Entry& entry);
// Evicts a plan.
void evict_plan(DeviceRuntime& runtime, std::list<DeviceRuntime::Entry>::iterator entry);
// Evicts the plan used longest ago.
void evict_oldest(DeviceRuntime& runtime);
// DeviceEntry::evict.
void evict(DeviceEntry& entry, bool all);

// Whether the plan may keep a further output of so many bytes. Makes room by releasing those of
// plans used longer ago.
bool may_keep(DeviceRuntime& runtime, const Plan& plan, std::uint64_t bytes);

}  // namespace volta::plan
