// What `volta bench` measures, and how a step is timed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/device.h"

namespace volta::cli {

// A step to repeat, and what one does: so many bytes, operations or steps, which make a rate. No
// work: the time itself is the result.
struct BenchStep {
  std::function<void()> run;
  double work = 0;
  std::string unit = {};
};

struct BenchCase {
  std::string name, what;
  std::function<BenchStep()> make;  // its tensors live as long as the step
};
// Sizes are those of GPUs or of CPUs.
std::vector<BenchCase> bench_cases(Device device);

struct Timing {
  double median = 0, low = 0, high = 0;  // seconds of a step; quartiles of the blocks
  int blocks = 0;
};
// Warms up until nothing is planned, compiled or tuned any more, then times blocks of steps with
// one wait at the end of each: at least five, for at least so long.
Timing time_step(const std::function<void()>& step, Device device, double seconds);

}  // namespace volta::cli
