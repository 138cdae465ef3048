// The cost figures behind placement decisions, and a hook for tests.
#pragma once

#include <cstdint>

#include "backend/registry.h"
#include "graph/record/op.h"
#include "graph/record/placing.h"
#include "volta/export.h"
#include "volta/placement.h"

namespace volta::graph {

// A hook for tests that returns the device for an operation, or null to leave it to the policy.
using PlacementChooser = DeviceEntry* (*)(OpId op);
VOLTA_BACKEND_API void set_placement_chooser(PlacementChooser chooser);

// Placement figures with thresholds derived from them.
struct CostModel {
  explicit CostModel(PlacementFigures figures);

  // The seconds of an operation on a GPU that already has work: without start-up and wait.
  double marginal_gpu(double bytes, double multiplications, double functions) const;
  static double whole(const DeviceTimes& times, double bytes, double multiplications,
                      double functions);

  PlacementFigures figures;
  // Up to the `stay_` amounts, downloading values from the GPU never pays. Up to the `small_`
  // amounts, the CPU has finished before the GPU could start.
  double stay_bytes, stay_multiplications;
  double small_bytes, small_multiplications, small_functions;
};
// The current figures of a GPU. The returned object is never destroyed.
const CostModel& cost_model(DeviceEntry& gpu);
// A number that changes with every change of the figures.
std::uint32_t figures_edition();

}  // namespace volta::graph
