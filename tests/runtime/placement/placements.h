// Shared by tests of placement: figures of an imaginary machine, values on the host, and counts of
// transfers.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "runtime/placement/placement.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {

// Round numbers: a CPU with 10 GB/s and 20 G multiplications per second, a GPU that is a hundred
// times faster but takes 15 us to start, and a bus with 10 GB/s.
inline PlacementFigures round_figures() {
  PlacementFigures figures;
  figures.cpu = {TimeCurve::of(2e-6, 10e9), TimeCurve::of(2e-6, 20e9), TimeCurve::of(2e-6, 1e9)};
  figures.gpu = {TimeCurve::of(15e-6, 1000e9), TimeCurve::of(15e-6, 2000e9),
                 TimeCurve::of(15e-6, 100e9)};
  figures.upload = TimeCurve::of(10e-6, 10e9);
  figures.download = TimeCurve::of(15e-6, 10e9);
  return figures;
}

inline Tensor host_values(const Shape& shape, float more = 0) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 17) / 17.0f - 0.4f + more;
  return from_vector(values, shape, {.device = Device::cpu()});
}

template <class Body>
Counters counted(Body body) {
  synchronize(test_device());
  reset_counters();
  body();
  synchronize(test_device());
  return counters();
}

class Placements : public testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
    set_placement_figures(test_device(), round_figures());
  }
  void TearDown() override { graph::set_placement_chooser(nullptr); }
  static ExecutionOptions options(Placement placement) {
    return {.placement = placement, .gpu = test_device()};
  }
};

}  // namespace volta
