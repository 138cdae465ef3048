// After a run: which of its results depend on indices that were checked, in this run or before.
#pragma once

#include <cstdint>

#include "graph/segment.h"
#include "plan/plan.h"

namespace volta::plan {

// Gives the results of the run their dependences. `run`: its number in the plan's log, if it has
// one. The batch's nodes still have their inputs.
void note_dependences(const Plan& plan, const graph::Batch& batch, std::uint64_t run);

}  // namespace volta::plan
