// A plan in words.
#include "plan/explain.h"

#include <algorithm>
#include <bit>
#include <ostream>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "core/registry.h"
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

std::string place_text(const Place& place) {
  const std::string_view path = place.file();
  return fmt::format("{}:{}", path.substr(path.find_last_of("/\\") + 1), place.line());
}

// "gelu (model.cpp:12)"
std::string name_of_node(const graph::Node& node) {
  const std::string name = graph::op_info(node.op).name;
  return *node.place.file() == 0 ? name : fmt::format("{} ({})", name, place_text(node.place));
}

std::string schedule_text(const StepDraft& step) {
  const kernel::Schedule& schedule = step.segments.front().program.schedule;
  std::string text = schedule.kind == kernel::ScheduleKind::Map ? "map"
                     : schedule.lanes == 1                      ? "rows, one lane each"
                                                                : "rows";
  if (step.segments.size() > 1) text += fmt::format(", {} side by side", step.segments.size());
  return text;
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

void Account::add_step(const StepDraft& step, const std::vector<Value>& values) {
  StepInfo info;
  const bool is_call = step.segments.empty();
  if (const auto* sort = std::get_if<SortStep>(&step.call); sort != nullptr && is_call) {
    const SortStep& s = *sort;
    const auto keys = static_cast<std::uint64_t>(s.rows * s.length);
    const auto found = static_cast<std::uint64_t>(s.rows * s.count);
    info.kind = "sort";
    info.what = fmt::format("{} {}", s.label, to_string(Shape{s.rows, s.length}));
    info.schedule = "rows";
    info.operations =
        keys * static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(s.length)));
    info.bytes_read = keys * size_of(s.dtype);
    info.bytes_written = found * (size_of(s.index_dtype) + (s.has_values ? size_of(s.dtype) : 0));
  } else if (const auto* conv = std::get_if<ConvStep>(&step.call); conv != nullptr && is_call) {
    const ConvStep& s = *conv;
    info.kind = "convolution";
    info.what =
        fmt::format("{} {} with {}{}{}", s.label, to_string(Shape{s.n, s.in[0], s.in[1], s.c_in}),
                    to_string(Shape{s.c_out, s.kernel[0], s.kernel[1], s.group_in()}),
                    s.has_bias ? " + bias" : "", text_of(s.activation));
    info.schedule = "library";
    info.operations = static_cast<std::uint64_t>(2 * s.work());
    const std::int64_t sizes[] = {s.result_size(), s.input_size(), s.weight_size()};
    const std::int64_t written = sizes[static_cast<int>(s.kind)];
    info.bytes_written = size_of(s.dtype) * static_cast<std::uint64_t>(written);
    info.bytes_read =
        size_of(s.dtype) * static_cast<std::uint64_t>(sizes[0] + sizes[1] + sizes[2] - written);
  } else if (const auto* attention = std::get_if<AttentionStep>(&step.call);
             attention != nullptr && is_call) {
    const AttentionStep& a = *attention;
    info.kind = "attention";
    info.what = fmt::format("{} {} of {} keys{}", a.label,
                            to_string(Shape{a.batch, a.heads, a.queries, a.size}), a.keys,
                            a.causal ? ", causal" : "");
    info.schedule = "library";
    const std::int64_t product = a.batch * a.heads * a.queries * a.keys * a.size;
    info.operations =
        static_cast<std::uint64_t>((a.gradient ? 10 : 4) * product / (a.causal ? 2 : 1));
    for (const int value : step.reads) {
      const Value& v = values[static_cast<std::size_t>(value)];
      info.bytes_read += size_of(v.dtype) * static_cast<std::uint64_t>(v.shape.numel());
    }
    for (const int value : step.writes) {
      const Value& v = values[static_cast<std::size_t>(value)];
      info.bytes_written += size_of(v.dtype) * static_cast<std::uint64_t>(v.shape.numel());
    }
  } else if (is_call) {
    const auto& m = std::get<MatmulStep>(step.call);
    info.kind = "matmul";
    info.what =
        fmt::format("{} {} x {}{}{}", m.label, to_string(Shape{m.batch, m.m, m.k}),
                    to_string(Shape{m.k, m.n}), m.has_bias ? " + bias" : "", text_of(m.activation));
    info.schedule = "library";
    info.operations = static_cast<std::uint64_t>(2 * m.batch * m.m * m.n * m.k);
    const std::uint64_t size = size_of(m.dtype);
    // A matrix may be part of what lies in the buffer, and one may serve for all of a batch.
    const auto read = [&](std::size_t side, std::int64_t elements) {
      const Value& v = values[static_cast<std::size_t>(step.reads[side])];
      return size * static_cast<std::uint64_t>(std::min(elements, v.shape.numel()));
    };
    info.bytes_read = read(0, m.batch * m.m * m.k) + read(1, m.batch * m.k * m.n);
    const std::uint64_t result =
        size_of(m.result_dtype()) * static_cast<std::uint64_t>(m.batch * m.m * m.n);
    info.bytes_written = m.keeps_input ? 2 * result : result;
    if (m.reads_other()) info.bytes_read += result;
  } else {
    info.kind = "kernel";
    info.what = step.segments.front().label;
    info.schedule = schedule_text(step);
    for (const KernelDraft& kernel : step.segments) {
      info.bytes_read += kernel.bytes_read;
      info.bytes_written += kernel.bytes_written;
      info.operations += kernel.operations;
    }
  }
  const double bytes = static_cast<double>(info.bytes_read + info.bytes_written);
  const double operations = static_cast<double>(info.operations);
  const bool known = figures.bytes_per_second > 0 && figures.operations_per_second > 0;
  const double balance =
      known ? figures.operations_per_second / figures.bytes_per_second : kBalance;
  info.memory_bound = operations < balance * bytes;
  if (known) {
    const double least = info.memory_bound ? bytes / figures.bytes_per_second
                                           : operations / figures.operations_per_second;
    info.seconds = least + kStartSeconds;
    info.peak_share = least / info.seconds;
  }
  explanation.steps.push_back(std::move(info));
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
    const std::string_view path = tape->place.file();
    const std::string gradient =
        fmt::format("{} ({}:{})", graph::op_info(tape->op).name,
                    path.substr(path.find_last_of("/\\") + 1), tape->place.line());
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
