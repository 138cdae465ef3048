// Time estimates behind placement by cost: how long work and transfers take on this machine.
#pragma once

#include <iosfwd>
#include <utility>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// The time in seconds that an amount of work takes: measured points with linear interpolation on
// logarithmic scales. Amounts below the first point take as long as it; beyond the last point the
// time is proportional.
struct VOLTA_API TimeCurve {
  std::vector<std::pair<double, double>> points;  // amounts, increasing, and seconds, all positive

  double seconds(double amount) const;
  // Makes a curve from a fixed time and a positive rate.
  static TimeCurve of(double fixed_seconds, double amount_per_second);
};

// The time of one operation from the call to its end.
struct DeviceTimes {
  TimeCurve memory;          // over bytes read and written
  TimeCurve products;        // over multiplications in f32 matrix products
  TimeCurve functions = {};  // over elements of exp, tanh, ...; if empty, as for their bytes
};

struct PlacementFigures {
  DeviceTimes cpu;
  DeviceTimes gpu;
  TimeCurve upload;    // over bytes from pageable memory
  TimeCurve download;  // includes waiting for the device
};

// Returns the figures of this machine and device. They are measured on first use (a few seconds)
// and stored with the kernels (VOLTA_CACHE_DIR), so later processes measure nothing.
VOLTA_API PlacementFigures placement_figures(Device gpu);
// Replaces the measured figures in this process. Throws ArgumentError for an invalid curve.
VOLTA_API void set_placement_figures(Device gpu, PlacementFigures figures);
VOLTA_API std::ostream& operator<<(std::ostream& out, const PlacementFigures& figures);

}  // namespace volta
