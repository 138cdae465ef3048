// A plan in words: what `explain` says beyond the steps themselves.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/draft.h"
#include "plan/plan.h"
#include "volta/execution.h"

namespace volta::plan {

// Nodes whose values tapes keep, with the gradients they are kept for.
using SavedFor = std::unordered_map<const graph::Node*, std::vector<std::string>>;

// A step in words, with what it takes at least on a device of these figures.
VOLTA_BACKEND_API StepInfo describe(const Step& step, const StepCost& cost,
                                    const DeviceFigures& figures);

// What is told of a plan: its results by build_plan, its steps when their schedules are known.
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
