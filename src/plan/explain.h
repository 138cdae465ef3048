// Describes a plan in words, for explain().
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/draft.h"
#include "plan/plan.h"
#include "volta/execution.h"

namespace volta::plan {

// Nodes whose values tapes keep, with the names of the gradients that need them.
using SavedFor = std::unordered_map<const graph::Node*, std::vector<std::string>>;

// Describes a step, with its least possible time on a device with these figures.
VOLTA_BACKEND_API StepInfo describe(const Step& step, const StepCost& cost,
                                    const DeviceFigures& figures);

// A description of a plan: build_plan adds the results, and the steps follow once their schedules
// are known.
struct VOLTA_BACKEND_API Account {
  Explanation explanation;
  DeviceFigures figures;
  SavedFor saved_for;

  void add_steps(const PlanSteps& steps);
  // `origins`: of each output of the plan.
  void add_results(const graph::Batch& batch, const std::vector<Result>& results,
                   const std::vector<OutputOrigin>& origins);
};

}  // namespace volta::plan
