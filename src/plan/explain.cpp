// A plan in words.
#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include "core/registry.h"
#include "graph/apply.h"
#include "graph/segment.h"
#include "plan/runner.h"
#include "volta/execution.h"

namespace volta {
namespace {

std::string amount(double value, const char* unit) {
  constexpr const char* kPrefix[] = {"", "k", "M", "G", "T"};
  int prefix = 0;
  while (value >= 1000 && prefix < 4) value /= 1000, ++prefix;
  return prefix == 0 ? fmt::format("{:.0f} {}", value, unit)
                     : fmt::format("{:.1f} {}{}", value, kPrefix[prefix], unit);
}

}  // namespace

int Explanation::kernels() const {
  return static_cast<int>(std::count_if(steps.begin(), steps.end(),
                                        [](const StepInfo& s) { return s.kind == "kernel"; }));
}
int Explanation::library_calls() const { return static_cast<int>(steps.size()) - kernels(); }

Explanation explain(std::span<const Tensor> tensors) {
  Explanation all;
  std::vector<DeviceEntry*> seen;
  for (const Tensor& tensor : tensors) {
    graph::require_defined("explain", tensor);
    DeviceEntry* entry = &graph::entry_of(tensor);
    if (!tensor.is_pending() || std::find(seen.begin(), seen.end(), entry) != seen.end()) continue;
    seen.push_back(entry);
    graph::Segment* segment = graph::node_of(tensor)->segment.load(std::memory_order_acquire);
    if (segment == nullptr) continue;
    Explanation part = plan::explain_segment(*segment);
    all.arena_bytes += part.arena_bytes;
    for (StepInfo& step : part.steps) all.steps.push_back(std::move(step));
  }
  return all;
}

Explanation explain(const Tensor& tensor) { return explain({&tensor, 1}); }

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  if (explanation.steps.empty()) return out << "nothing pending\n";
  out << fmt::format("{} kernels, {} library calls, {} of temporaries\n", explanation.kernels(),
                     explanation.library_calls(),
                     amount(static_cast<double>(explanation.arena_bytes), "B"));
  for (std::size_t i = 0; i < explanation.steps.size(); ++i) {
    const StepInfo& s = explanation.steps[i];
    out << fmt::format("{:3}  {:7} {:28} reads {:>9}  writes {:>9}  {:>10}  {}\n", i + 1, s.kind,
                       s.schedule, amount(static_cast<double>(s.bytes_read), "B"),
                       amount(static_cast<double>(s.bytes_written), "B"),
                       amount(static_cast<double>(s.operations), "op"), s.what);
  }
  return out;
}

}  // namespace volta
