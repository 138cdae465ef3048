// Describes a plan in words.
#include "plan/explain.h"

#include <algorithm>
#include <ostream>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/text.h"
#include "graph/record/apply.h"
#include "graph/record/op.h"
#include "plan/calls/call.h"

namespace volta {
namespace plan {
namespace {

// Kernels with fewer operations per byte are limited by memory on any known device.
constexpr double kBalance = 8;
// The time to start a kernel, if nothing else is known.
constexpr double kStartSeconds = 2e-6;

// Returns for example "gelu (model.cpp:12)".
std::string name_of_node(const graph::Node& node) {
  const std::string name = graph::op_info(node.op).name;
  return *node.place.file() == 0 ? name : fmt::format("{} ({})", name, place_text(node.place));
}

std::string schedule_text(const KernelStep& step) {
  const kernel::Schedule& schedule = step.program->schedule;
  std::string text = schedule.kind == kernel::ScheduleKind::Map ? "map"
                     : schedule.lanes == 1                      ? "rows, one lane each"
                                                                : "rows";
  if (step.segments.size() > 1) text += fmt::format(", {} side by side", step.segments.size());
  if (step.tuned) text += fmt::format(", tuned: {}", kernel::to_text(schedule));
  return text;
}

// Returns the step's kind, operations and schedule.
StepInfo named(const Step& step) {
  if (const Call* call = call_of(step)) {
    CallText text = call->text(step);
    return {
        .kind = call->name(), .what = std::move(text.what), .schedule = std::move(text.schedule)};
  }
  const auto& kernel = std::get<KernelStep>(step);
  // A kernel that only moves elements has no operation to name.
  return {.kind = "kernel",
          .what = kernel.label.empty() ? "rearrange" : kernel.label,
          .schedule = schedule_text(kernel)};
}

std::string holder_text(const graph::Node& node, const SavedFor& saved_for) {
  std::string text;
  std::size_t saves = 0;
  if (const auto found = saved_for.find(&node); found != saved_for.end()) {
    saves = found->second.size();
    for (const std::string& gradient : found->second)
      text += fmt::format("{}saved for the gradient of {}", text.empty() ? "" : ", ", gradient);
  }
  if (node.holders() <= saves) return text;
  const std::size_t handles = node.holders() - saves;
  const std::string held =
      handles == 1 ? "held by a handle" : fmt::format("held {} times", handles);
  return text.empty() ? held : held + ", " + text;
}

// What one iteration does, and how often.
std::vector<StepInfo> body_of(const LoopStep& loop, const DeviceFigures& figures) {
  std::vector<StepInfo> body;
  for (const LoopPart& part : loop.parts) {
    for (std::size_t i = 0; i < part.steps.size() && part.count > 0; ++i) {
      body.push_back(describe(part.steps[i], part.costs[i], figures));
      body.back().times = part.count;
    }
  }
  return body;
}

}  // namespace

StepInfo describe(const Step& step, const StepCost& cost, const DeviceFigures& figures) {
  StepInfo info = named(step);
  info.bytes_read = cost.bytes_read;
  info.bytes_written = cost.bytes_written;
  info.operations = cost.operations;
  const double bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  const double operations = static_cast<double>(cost.operations);
  const Call* call = call_of(step);
  const double rate = figures.rate(call ? call->arithmetic(step) : Arithmetic::Single);
  const bool known = figures.bytes_per_second > 0 && rate > 0;
  info.memory_bound = operations < (known ? rate / figures.bytes_per_second : kBalance) * bytes;
  if (known) {
    const double least = info.memory_bound ? bytes / figures.bytes_per_second : operations / rate;
    info.seconds = least + kStartSeconds;
    info.peak_share = least / info.seconds;
  }
  if (const auto* loop = std::get_if<LoopStep>(&step)) {
    info.body = body_of(*loop, figures);
    double seconds = 0, at_peak = 0;
    for (const StepInfo& one : info.body) {
      seconds += static_cast<double>(one.times) * one.seconds;
      at_peak += static_cast<double>(one.times) * one.seconds * one.peak_share;
    }
    info.seconds = seconds;
    info.peak_share = seconds > 0 ? at_peak / seconds : 0;
  }
  return info;
}

void Account::add_steps(const PlanSteps& steps) {
  explanation.arena_bytes = steps.arena_bytes;
  for (std::size_t i = 0; i < steps.steps.size(); ++i)
    explanation.steps.push_back(describe(steps.steps[i], steps.costs[i], figures));
}

void Account::add_results(const graph::Batch& batch, const std::vector<Result>& results,
                          const std::vector<OutputOrigin>& origins) {
  const auto leaf_name = [&](int leaf) {
    return name_of_node(*batch.leaves[static_cast<std::size_t>(leaf)].node);
  };
  for (const Result& result : results) {
    const graph::Node& node = *batch.nodes[result.node];
    ResultInfo info;
    info.what = fmt::format("{} {} {}", volta::name_of(node.dtype), to_string(node.shape),
                            graph::op_info(node.op).name);
    info.place = place_text(node.place);
    info.holder = holder_text(node, saved_for);
    info.bytes = static_cast<std::uint64_t>(node.shape.numel()) * size_of(node.dtype);
    if (result.kind == Result::Kind::Leaf) {
      info.memory = "lies in " + leaf_name(static_cast<int>(result.number));
      explanation.results.push_back(std::move(info));
      continue;
    }
    const OutputOrigin& origin = origins[result.number];
    info.step = origin.step;
    if (origin.donor >= 0) {
      info.memory = "in place of " + leaf_name(origin.donor);
    } else if (origin.refused >= 0) {
      info.memory =
          fmt::format("fresh memory, not {}: {}", leaf_name(origin.refused), origin.refusal);
    } else {
      info.memory = "fresh memory";
    }
    explanation.results.push_back(std::move(info));
  }
}

}  // namespace plan

namespace {

std::string amount(double value, const char* unit) {
  constexpr const char* kPrefix[] = {"", "k", "M", "G", "T"};
  int prefix = 0;
  while (value >= 999.95 && prefix < 4) value /= 1000, ++prefix;
  return prefix == 0 ? fmt::format("{:.0f} {}", value, unit)
                     : fmt::format("{:.1f} {}{}", value, kPrefix[prefix], unit);
}
std::string amount(std::uint64_t value, const char* unit) {
  return amount(static_cast<double>(value), unit);
}

std::string counted(int count, const char* one, const char* several) {
  return fmt::format("{} {}", count, count == 1 ? one : several);
}

}  // namespace

namespace {

// The kernels, or the calls, that the steps run.
std::int64_t launches_of(const std::vector<StepInfo>& steps, bool kernels) {
  std::int64_t count = 0;
  for (const StepInfo& step : steps) {
    const bool counts = (step.kind == "kernel") == kernels;
    count += step.times * (step.kind == "loop" ? launches_of(step.body, kernels) : counts ? 1 : 0);
  }
  return count;
}

}  // namespace

int Explanation::kernels() const { return static_cast<int>(launches_of(steps, true)); }
int Explanation::library_calls() const { return static_cast<int>(launches_of(steps, false)); }

namespace {

void print(std::ostream& out, const StepInfo& s, const char* indent) {
  out << fmt::format("{} ({}): {}\n", s.kind, s.schedule, s.what);
  const std::uint64_t bytes = s.bytes_read + s.bytes_written;
  out << indent
      << fmt::format("reads {}, writes {}, {}, {:.1f} op/B, bound by {}", amount(s.bytes_read, "B"),
                     amount(s.bytes_written, "B"), amount(s.operations, "op"),
                     static_cast<double>(s.operations) /
                         static_cast<double>(std::max<std::uint64_t>(bytes, 1)),
                     s.memory_bound ? "memory" : "arithmetic");
  if (s.seconds > 0) {
    out << fmt::format("; {:.1f} us expected, {:.0f}% of the device's peak", s.seconds * 1e6,
                       100 * s.peak_share);
  }
  out << "\n";
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  if (explanation.steps.empty() && explanation.results.empty()) return out << "nothing pending\n";
  std::uint64_t read = 0, written = 0, operations = 0;
  for (const StepInfo& s : explanation.steps) {
    read += s.bytes_read;
    written += s.bytes_written;
    operations += s.operations;
  }
  out << fmt::format("{}, {}: reads {}, writes {}, {}; {} of temporaries\n",
                     counted(explanation.kernels(), "kernel", "kernels"),
                     counted(explanation.library_calls(), "library call", "library calls"),
                     amount(read, "B"), amount(written, "B"), amount(operations, "op"),
                     amount(explanation.arena_bytes, "B"));
  if (explanation.stretches > 0) {
    out << fmt::format("linked from {}, because the steps before were all different\n",
                       counted(explanation.stretches, "stretch", "stretches"));
  }
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const StepInfo& s = explanation.steps[i];
    out << fmt::format("{:3}  ", i + 1);
    print(out, s, "     ");
    for (const StepInfo& one : s.body) {
      out << fmt::format("     {} times: ", one.times);
      print(out, one, "       ");
    }
  }
  for (const ResultInfo& r : explanation.results) {
    const std::string step = r.step > 0 ? fmt::format("by step {}, ", r.step) : "";
    out << fmt::format("  => {} ({}), {}: {}{}; {}\n", r.what, r.place, amount(r.bytes, "B"), step,
                       r.memory, r.holder);
  }
  return out;
}

}  // namespace volta
