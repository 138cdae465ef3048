// Splits whole runs of a plan into steps, using the runs whose steps were timed one by one
// (samples).
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/profile/recorder.h"

namespace volta::profiling {
namespace {

// The samples and runs of one plan on one device.
struct Seen {
  // For each step of a sample, in order: its number in the plan and the sum of its times.
  std::vector<std::pair<std::uint32_t, double>> steps;
  std::size_t samples = 0;
  double run_time = 0;  // sum over all runs
  std::size_t runs = 0;

  double mean_run() const { return run_time / static_cast<double>(runs); }
  // The share of a run that each step takes. The cost of taking a time is assumed equal for all
  // steps and is subtracted.
  std::vector<double> shares() const {
    std::vector<double> times;
    double sum = 0;
    for (const auto& [number, time] : steps) {
      times.push_back(time / static_cast<double>(samples));
      sum += times.back();
    }
    if (runs > 0) {
      const double cost = std::max(0.0, (sum - mean_run()) / static_cast<double>(times.size()));
      constexpr double kLeast = 0.1;  // the least part of a measured time that remains
      sum = 0;
      for (double& time : times) sum += time = std::max(time - cost, kLeast * time);
    }
    for (double& time : times) time = sum > 0 ? time / sum : 0;
    return times;
  }
};

using Key = std::tuple<std::string, std::uint32_t>;
Key key_of(const DeviceEvent& event) { return {to_string(event.device), event.span.plan}; }

// The end of the sample that begins at `first`; steps of one sample follow each other without a
// gap.
std::size_t sample_end(const std::vector<DeviceEvent>& spans, std::size_t first) {
  std::size_t end = first + 1;
  while (end < spans.size() && spans[end].span.kind == Span::Kind::Sample &&
         spans[end].device == spans[first].device &&
         spans[end].span.plan == spans[first].span.plan &&
         spans[end].span.begin == spans[end - 1].span.end)
    ++end;
  return end;
}

}  // namespace

std::vector<DeviceEvent> split_runs(std::vector<DeviceEvent> spans) {
  std::map<Key, Seen> seen;
  for (std::size_t i = 0; i < spans.size();) {
    const Span& span = spans[i].span;
    if (span.kind == Span::Kind::Sample) {
      Seen& plan = seen[key_of(spans[i])];
      const std::size_t end = sample_end(spans, i);
      if (plan.samples == 0) plan.steps.resize(end - i);
      if (plan.steps.size() == end - i) {
        ++plan.samples;
        for (std::size_t step = 0; step < end - i; ++step) {
          const Span& one = spans[i + step].span;
          plan.steps[step].first = one.step;
          plan.steps[step].second += static_cast<double>(one.end - one.begin);
        }
      }
      i = end;
      continue;
    }
    if (span.kind == Span::Kind::Run) {
      Seen& plan = seen[key_of(spans[i])];
      plan.run_time += static_cast<double>(span.end - span.begin);
      ++plan.runs;
    }
    ++i;
  }
  if (seen.empty()) return spans;

  std::map<Key, std::vector<double>> shares;
  for (const auto& [key, plan] : seen) shares[key] = plan.shares();
  std::vector<DeviceEvent> split;
  const auto add_run = [&](const DeviceEvent& run, double length) {
    const Key key = key_of(run);
    const Seen& plan = seen[key];
    const std::vector<double>& parts = shares[key];
    const auto start = static_cast<double>(run.span.begin);
    double before = 0;
    for (std::size_t step = 0; step < parts.size(); ++step) {
      DeviceEvent event = run;
      event.span.kind = Span::Kind::Step;
      event.span.step = plan.steps[step].first;
      event.span.begin = static_cast<Time>(start + before * length);
      before += parts[step];
      event.span.end = static_cast<Time>(start + before * length);
      split.push_back(event);
    }
  };
  for (std::size_t i = 0; i < spans.size();) {
    const Span& span = spans[i].span;
    if (span.kind == Span::Kind::Sample) {
      const std::size_t end = sample_end(spans, i);
      const Seen& plan = seen[key_of(spans[i])];
      const auto measured = static_cast<double>(spans[end - 1].span.end - span.begin);
      add_run(spans[i], plan.runs > 0 ? plan.mean_run() : measured);
      i = end;
      continue;
    }
    if (span.kind == Span::Kind::Run && seen[key_of(spans[i])].samples > 0) {
      add_run(spans[i], static_cast<double>(span.end - span.begin));
    } else {
      split.push_back(spans[i]);
    }
    ++i;
  }
  return split;
}

}  // namespace volta::profiling
