// How long work takes on a device: measured once a machine, kept beside the kernels.
#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <limits>

#include "backend/backend.h"
#include "core/registry.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/placement.h"

namespace volta::graph {

// The shortest of several times, in seconds.
template <class Body>
double seconds_of(const Body& body) {
  using Clock = std::chrono::steady_clock;
  body();  // kernels, plans, memory
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

// Fills the curves with what an earlier process measured for the device, or calls `measure`, which
// fills them, and keeps that. It is called on a thread of its own: what the caller has recorded and
// its settings stay as they are. The caller has no device's lock.
void recall_or_measure(const char* what, Device device, std::initializer_list<TimeCurve*> curves,
                       const std::function<void()>& measure);
// How often this process measured.
VOLTA_BACKEND_API int measurements();

DeviceTimes device_times(Device device);

// What the device can do at best with so many bytes, for those whose backend has no figures: the
// best that was measured with as many or more, as caches are faster than memory. Zeros where
// nothing was measured yet, see prepare_figures.
DeviceFigures measured_figures(const DeviceEntry& entry, double bytes);
// Measures what has no figures, if it was not measured before.
void prepare_figures();

}  // namespace volta::graph
