// What placement by cost reckons with: how long work and moves take on this machine.
#pragma once

#include <iosfwd>
#include <utility>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// Seconds that amounts of work take: measured points, between them straight lines on logarithmic
// scales. Less than the first point takes as long as it, more than the last in proportion.
struct VOLTA_API TimeCurve {
  std::vector<std::pair<double, double>> points;  // amount and seconds, positive, amounts rising

  double seconds(double amount) const;
  // A fixed time and a positive rate, as points.
  static TimeCurve of(double fixed_seconds, double amount_per_second);
};

// One operation, from the call to its end.
struct DeviceTimes {
  TimeCurve memory;          // by bytes read and written
  TimeCurve products;        // by multiplications of f32 matrices
  TimeCurve functions = {};  // by elements of which exp, tanh are taken; none: as their bytes
};

struct PlacementFigures {
  DeviceTimes cpu;
  DeviceTimes gpu;
  TimeCurve upload;    // by bytes, of pageable memory
  TimeCurve download;  // with the wait for the device
};

// The figures of this machine and the device. They are measured when they are first asked for
// (a few seconds) and kept beside the kernels (VOLTA_CACHE_DIR): another process measures nothing.
VOLTA_API PlacementFigures placement_figures(Device gpu);
// For this process, instead of what was measured; ArgumentError where a curve makes no sense.
VOLTA_API void set_placement_figures(Device gpu, PlacementFigures figures);
VOLTA_API std::ostream& operator<<(std::ostream& out, const PlacementFigures& figures);

}  // namespace volta
