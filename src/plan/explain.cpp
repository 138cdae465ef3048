// A plan in words.
#include "plan/explain.h"

#include <algorithm>
#include <bit>
#include <ostream>
#include <unordered_set>

#include <fmt/format.h>

#include "core/registry.h"
#include "core/text.h"
#include "graph/apply.h"
#include "graph/op.h"
#include "plan/runner.h"

namespace volta {
namespace plan {
namespace {

const char* text_of(Activation activation) {
  switch (activation) {
    case Activation::None:
      return "";
    case Activation::Relu:
      return ", relu";
    case Activation::Gelu:
      return ", gelu";
    case Activation::GeluGradient:
      return ", gelu's gradient";
  }
  return "";
}

// Below this many operations per byte a kernel waits for memory on any device we know.
constexpr double kBalance = 8;
// What a kernel takes to start, where nothing else is known.
constexpr double kStartSeconds = 2e-6;

// "gelu (model.cpp:12)"
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

// Kind, words and schedule of each kind of step.
StepInfo named(const KernelStep& step) {
  // A kernel of movement alone has no operation to name.
  return {.kind = "kernel",
          .what = step.label.empty() ? "rearrange" : step.label,
          .schedule = schedule_text(step)};
}
StepInfo named(const MatmulStep& m) {
  return {.kind = "matmul",
          .what = fmt::format("{} {} x {}{}{}", m.label, to_string(Shape{m.batch, m.m, m.k}),
                              to_string(Shape{m.k, m.n}), m.has_bias ? " + bias" : "",
                              text_of(m.activation)),
          .schedule = m.cut.empty() ? "library" : fmt::format("library, tuned: {}", m.cut)};
}
StepInfo named(const SortStep& s) {
  return {.kind = "sort",
          .what = fmt::format("{} {}", s.label, to_string(Shape{s.rows, s.length})),
          .schedule = "rows"};
}
StepInfo named(const ConvStep& s) {
  return {.kind = "convolution",
          .what = fmt::format("{} {} with {}{}{}", s.label,
                              to_string(Shape{s.n, s.in[0], s.in[1], s.c_in}),
                              to_string(Shape{s.c_out, s.kernel[0], s.kernel[1], s.group_in()}),
                              s.has_bias ? " + bias" : "", text_of(s.activation)),
          .schedule = "library"};
}
StepInfo named(const AttentionStep& a) {
  return {.kind = "attention",
          .what = fmt::format("{} {} of {} keys{}", a.label,
                              to_string(Shape{a.batch, a.heads, a.queries, a.size}), a.keys,
                              a.causal ? ", causal" : ""),
          .schedule = "library"};
}

// Whether a step's operations are products of halves, or of f32 numbers rounded to tf32.
Arithmetic arithmetic_of(const Step& step) {
  const auto of = [](DType dtype, bool tf32) {
    if (dtype == DType::f16 || dtype == DType::bf16) return Arithmetic::Half;
    return tf32 ? Arithmetic::Tf32 : Arithmetic::Single;
  };
  if (const auto* m = std::get_if<MatmulStep>(&step)) return of(m->dtype, m->tf32);
  if (const auto* c = std::get_if<ConvStep>(&step)) return of(c->dtype, c->tf32);
  if (const auto* a = std::get_if<AttentionStep>(&step)) return of(a->dtype, false);
  return Arithmetic::Single;
}

Work work_of_call(const MatmulStep& m, const StepDraft& step, const std::vector<Value>& values) {
  Work work;
  work.operations = static_cast<std::uint64_t>(2 * m.batch * m.m * m.n * m.k);
  const std::uint64_t size = size_of(m.dtype);
  // A matrix may be part of what lies in the buffer, and one may serve for all of a batch.
  const auto read = [&](std::size_t side, std::int64_t elements) {
    const Value& v = values[static_cast<std::size_t>(step.reads[side])];
    return size * static_cast<std::uint64_t>(std::min(elements, v.shape.numel()));
  };
  work.bytes_read = read(0, m.batch * m.m * m.k) + read(1, m.batch * m.k * m.n);
  const std::uint64_t result =
      size_of(m.result_dtype()) * static_cast<std::uint64_t>(m.batch * m.m * m.n);
  work.bytes_written = m.keeps_input ? 2 * result : result;
  if (m.reads_other()) work.bytes_read += result;
  return work;
}
Work work_of_call(const SortStep& s, const StepDraft&, const std::vector<Value>&) {
  const auto keys = static_cast<std::uint64_t>(s.rows * s.length);
  const auto found = static_cast<std::uint64_t>(s.rows * s.count);
  return {.bytes_read = keys * size_of(s.dtype),
          .bytes_written = found * (size_of(s.index_dtype) + (s.has_values ? size_of(s.dtype) : 0)),
          .operations = keys * static_cast<std::uint64_t>(
                                   std::bit_width(static_cast<std::uint64_t>(s.length)))};
}
Work work_of_call(const ConvStep& s, const StepDraft&, const std::vector<Value>&) {
  const std::int64_t sizes[] = {s.result_size(), s.input_size(), s.weight_size()};
  const std::int64_t written = sizes[static_cast<int>(s.kind)];
  const std::int64_t read = sizes[0] + sizes[1] + sizes[2] - written;
  return {.bytes_read = size_of(s.dtype) * static_cast<std::uint64_t>(read),
          .bytes_written = size_of(s.dtype) * static_cast<std::uint64_t>(written),
          .operations = static_cast<std::uint64_t>(2 * s.work())};
}
Work work_of_call(const AttentionStep& a, const StepDraft& step, const std::vector<Value>& values) {
  const std::int64_t product = a.batch * a.heads * a.queries * a.keys * a.size;
  const auto bytes = [&](const std::vector<int>& numbers) {
    std::uint64_t sum = 0;
    for (const int number : numbers) {
      const Value& v = values[static_cast<std::size_t>(number)];
      sum += size_of(v.dtype) * static_cast<std::uint64_t>(v.shape.numel());
    }
    return sum;
  };
  return {.bytes_read = bytes(step.reads),
          .bytes_written = bytes(step.writes),
          .operations =
              static_cast<std::uint64_t>((a.gradient ? 10 : 4) * product / (a.causal ? 2 : 1))};
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

}  // namespace

Work work_of(const StepDraft& step, const std::vector<Value>& values) {
  if (step.segments.empty()) {
    return std::visit([&](const auto& call) { return work_of_call(call, step, values); },
                      step.call);
  }
  Work work;
  for (const KernelDraft& kernel : step.segments) {
    work.bytes_read += kernel.bytes_read;
    work.bytes_written += kernel.bytes_written;
    work.operations += kernel.operations;
  }
  return work;
}

StepInfo describe(const Step& step, const Work& work, const DeviceFigures& figures) {
  StepInfo info = std::visit([](const auto& kind) { return named(kind); }, step);
  info.bytes_read = work.bytes_read;
  info.bytes_written = work.bytes_written;
  info.operations = work.operations;
  const double bytes = static_cast<double>(work.bytes_read + work.bytes_written);
  const double operations = static_cast<double>(work.operations);
  const double rate = figures.rate(arithmetic_of(step));
  const bool known = figures.bytes_per_second > 0 && rate > 0;
  info.memory_bound = operations < (known ? rate / figures.bytes_per_second : kBalance) * bytes;
  if (known) {
    const double least = info.memory_bound ? bytes / figures.bytes_per_second : operations / rate;
    info.seconds = least + kStartSeconds;
    info.peak_share = least / info.seconds;
  }
  return info;
}

void Account::add_steps(const PlanSteps& steps) {
  explanation.arena_bytes = steps.arena_bytes;
  for (std::size_t i = 0; i < steps.steps.size(); ++i)
    explanation.steps.push_back(describe(steps.steps[i], steps.work[i], figures));
}

void Account::add_results(const graph::Batch& batch, const Plan& plan,
                          const std::vector<int>& outputs, const std::vector<StepDraft>& steps,
                          const Donation& donation) {
  const auto leaf_name = [&](int leaf) {
    return name_of_node(*batch.leaves[static_cast<std::size_t>(leaf)].node);
  };
  for (const Result& result : plan.results) {
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
    const int value = outputs[result.number];
    for (std::size_t s = 0; s < steps.size() && info.step == 0; ++s) {
      const auto& writes = steps[s].writes;
      if (std::find(writes.begin(), writes.end(), value) != writes.end())
        info.step = static_cast<int>(s) + 1;
    }
    const std::size_t v = static_cast<std::size_t>(value);
    if (donation.donor[v] >= 0) {
      info.memory = "in place of " + leaf_name(donation.donor[v]);
    } else if (donation.refused[v].leaf >= 0) {
      info.memory = fmt::format("fresh memory, not {}: {}", leaf_name(donation.refused[v].leaf),
                                donation.refused[v].why);
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

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// What the tapes behind a tensor keep.
void collect_saves(const Tensor& tensor, std::unordered_set<const graph::Tape*>& seen,
                   plan::SavedFor& saved_for) {
  std::vector<const graph::Tape*> stack{graph::TensorAccess::variable(tensor)->tape.get()};
  while (!stack.empty()) {
    const graph::Tape* tape = stack.back();
    stack.pop_back();
    if (tape == nullptr || !seen.insert(tape).second) continue;
    const std::string gradient =
        fmt::format("{} ({})", graph::op_info(tape->op).name, place_text(tape->place));
    const auto keep = [&](const graph::Held& held) {
      if (held) saved_for[held.get()].push_back(gradient);
    };
    for (const graph::Held& held : tape->saved) keep(held);
    for (const graph::Held& held : tape->auxiliary) keep(held);
    keep(tape->output);
    for (const graph::Edge& edge : tape->edges) stack.push_back(edge.tape.get());
  }
}

}  // namespace

int Explanation::kernels() const {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(),
                                        [](const StepInfo& s) { return s.kind == "kernel"; }));
}
int Explanation::library_calls() const { return static_cast<int>(steps.size()) - kernels(); }

Explanation explain(std::span<const Tensor> tensors) {
  plan::SavedFor saved_for;
  std::unordered_set<const graph::Tape*> tapes;
  for (const Tensor& tensor : tensors) {
    graph::require_defined("explain", tensor);
    collect_saves(tensor, tapes, saved_for);
  }
  Explanation all;
  std::vector<DeviceEntry*> seen;
  for (const Tensor& tensor : tensors) {
    DeviceEntry* entry = &graph::entry_of(tensor);
    if (!tensor.is_pending() || std::find(seen.begin(), seen.end(), entry) != seen.end()) continue;
    seen.push_back(entry);
    graph::Segment* segment = graph::node_of(tensor)->segment.load(std::memory_order_acquire);
    if (segment == nullptr) continue;
    Explanation part = plan::explain_segment(*segment, saved_for);
    all.arena_bytes += part.arena_bytes;
    const int before = static_cast<int>(all.steps.size());
    for (StepInfo& step : part.steps) all.steps.push_back(std::move(step));
    for (ResultInfo& result : part.results) {
      if (result.step > 0) result.step += before;
      all.results.push_back(std::move(result));
    }
  }
  return all;
}

Explanation explain(const Tensor& tensor) { return explain({&tensor, 1}); }

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  if (explanation.steps.empty() && explanation.results.empty()) return out << "nothing pending\n";
  std::uint64_t read = 0, written = 0, operations = 0;
  for (const StepInfo& s : explanation.steps) {
    read += s.bytes_read;
    written += s.bytes_written;
    operations += s.operations;
  }
  out << fmt::format("{}, {}: reads {}, writes {}, {}; {} of temporaries\n",
                     counted(explanation.kernels(), "kernel"),
                     counted(explanation.library_calls(), "library call"), amount(read, "B"),
                     amount(written, "B"), amount(operations, "op"),
                     amount(explanation.arena_bytes, "B"));
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const StepInfo& s = explanation.steps[i];
    out << fmt::format("{:3}  {} ({}): {}\n", i + 1, s.kind, s.schedule, s.what);
    const std::uint64_t bytes = s.bytes_read + s.bytes_written;
    out << fmt::format(
        "     reads {}, writes {}, {}, {:.1f} op/B, bound by {}", amount(s.bytes_read, "B"),
        amount(s.bytes_written, "B"), amount(s.operations, "op"),
        static_cast<double>(s.operations) / static_cast<double>(std::max<std::uint64_t>(bytes, 1)),
        s.memory_bound ? "memory" : "arithmetic");
    if (s.seconds > 0) {
      out << fmt::format("; {:.1f} us expected, {:.0f}% of the device's peak", s.seconds * 1e6,
                         100 * s.peak_share);
    }
    out << "\n";
  }
  for (const ResultInfo& r : explanation.results) {
    const std::string step = r.step > 0 ? fmt::format("by step {}, ", r.step) : "";
    out << fmt::format("  => {} ({}), {}: {}{}; {}\n", r.what, r.place, amount(r.bytes, "B"), step,
                       r.memory, r.holder);
  }
  return out;
}

}  // namespace volta
