// Records after a run which of its results depend on checked indices of this run or of earlier
// ones.
#pragma once

#include <cstdint>

#include "graph/record/recorder.h"
#include "plan/plan.h"

namespace volta::plan {

// Sets the dependences of the run's results. `run` is its number in the plan's index log, if there
// is one. The batch's nodes must still have their inputs.
void note_dependences(const Plan& plan, const graph::Batch& batch, std::uint64_t run);

}  // namespace volta::plan
