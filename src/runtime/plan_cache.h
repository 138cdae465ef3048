// The plan cache of a device: finds a plan by the key of its batch, or builds, tunes and compiles
// it.
#pragma once

#include <cstddef>

#include "graph/record/recorder.h"
#include "plan/plan.h"
#include "runtime/device_runtime.h"
#include "runtime/tune/tuner.h"

namespace volta::plan {

// Returns the plan of a batch. If the cache is full, the least recently used plan is evicted.
// `familiarity` is that of the recorder.
Plan& find_or_build(DeviceRuntime& runtime, graph::Batch& batch, std::size_t stream,
                    graph::Familiarity& familiarity);

// Tunes and compiles a newly built plan for a stream.
void prepare(DeviceRuntime& runtime, Plan& plan, const graph::Batch& batch, std::size_t stream,
             Unknown unknown);
// Collects the index errors of a plan before it is destroyed, because they are lost afterwards.
void retire(DeviceRuntime& runtime, const Plan& plan);

}  // namespace volta::plan
