// Runs a plan: allocates its results, launches its steps and gives the results to their nodes.
#pragma once

#include <cstdint>
#include <exception>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/plan.h"
#include "runtime/device_runtime.h"

namespace volta::plan {

// Thrown when a run fails after its first steps may have overwritten these leaves.
struct Overwritten {
  std::exception_ptr error;
  std::vector<std::uint32_t> leaves;
};

// Runs a plan of the batch. If `alone`, other nodes of the batch stay pending, so the computed
// nodes keep their inputs. Throws Overwritten if steps before the failure have overwritten leaves;
// after any other exception all values are intact.
void execute(DeviceRuntime& runtime, Plan& plan, graph::Batch& batch, bool alone);

// Collects the index errors of a CPU plan that has just run.
void verify_finished(const Plan& plan);

}  // namespace volta::plan
