// The times that work takes on a device, measured once per machine and kept in the kernel cache.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <limits>

#include "backend/backend.h"
#include "backend/registry.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/placement.h"

namespace volta::graph {

// The shortest of several measured times, in seconds.
template <class Body>
double seconds_of(const Body& body) {
  using Clock = std::chrono::steady_clock;
  body();  // compiles kernels, builds plans and allocates memory
  body();
  double best = std::numeric_limits<double>::infinity(), total = 0;
  for (int round = 0; round < 100 && (round < 5 || total < 5e-3); ++round) {
    const auto start = Clock::now();
    body();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, took);
    total += took;
  }
  return std::max(best, 1e-9);
}

// Fills the curves with the measurements of an earlier process, or calls `measure`, which fills
// them, and stores the result. `measure` runs in a thread of its own, so that the caller's recorded
// operations and settings are unaffected. The caller must not hold a device's lock.
void recall_or_measure(const char* what, Device device, std::initializer_list<TimeCurve*> curves,
                       const std::function<void()>& measure);
// The number of measurements by this process.
VOLTA_BACKEND_API int measurements();

DeviceTimes device_times(Device device);

// The measured peak rates of a device whose backend has no figures. The memory rate is the best one
// for at least `bytes`, because caches make smaller amounts faster. Zeros before prepare_figures
// has measured the device.
DeviceFigures measured_figures(const DeviceEntry& entry, double bytes);
// Measures the used devices without figures that were not measured before.
void prepare_figures();

}  // namespace volta::graph
