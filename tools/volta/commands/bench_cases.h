// The measurements of `volta bench`, and the timing of a step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/device.h"

namespace volta::cli {

// A step to repeat, with the amount of work in bytes, operations or steps that gives its rate.
// Without work the result is the time itself.
struct BenchStep {
  std::function<void()> run;
  double work = 0;
  std::string unit = {};
};

struct BenchCase {
  std::string name, what;
  std::function<BenchStep()> make;  // the step owns its tensors
};
// Sizes differ between GPUs and CPUs.
std::vector<BenchCase> bench_cases(Device device);

struct Timing {
  double median = 0, low = 0, high = 0;  // seconds per step; quartiles over the blocks
  int blocks = 0;
};
// Warms up until nothing more is planned, compiled or tuned, then times blocks of steps with one
// wait at the end of each: at least five blocks, for at least `seconds`.
Timing time_step(const std::function<void()>& step, Device device, double seconds);

}  // namespace volta::cli
