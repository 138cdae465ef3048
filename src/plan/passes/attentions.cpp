// Lets attention write its results with heads first where they are used in that order.
#include <algorithm>
#include <utility>

#include "backend/backend.h"
#include "backend/registry.h"
#include "plan/calls/attention.h"
#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"

namespace volta::plan {
namespace {

bool is_result(const Values& values, const Value& v) {
  return is_attention(v) || (v.kind == ValueKind::StepResult && is_attention(values[v.in[0]]));
}

// The results of attention that are written with heads first.
struct Turned {
  explicit Turned(const Values& values)
      : result(values, false), heads_first(values, 0), workspace(values, 0) {}
  PerValue<bool> result;
  PerValue<std::int64_t> heads_first;  // for each call, one bit per result
  PerValue<std::uint64_t> workspace;   // for each call, the workspace that the library then needs
};

// Finds results that are used only as held values with heads first.
Turned turned_results(const Graph& graph) {
  const Values& values = graph.values;
  PerValue<int> uses = count_uses(graph);
  for (const ValueId id : values.ids()) {
    // Further results of a call do not count as readers of the first one.
    if (values[id].kind == ValueKind::StepResult && uses[id] > 0) --uses[values[id].in[0]];
  }
  const PerValue<bool> wanted = wanted_values(graph);
  const std::vector<Extent> turn{0, 2, 1, 3};
  Turned turned(values);
  for (const ValueId id : values.ids()) {
    const Value& v = values[id];
    if (v.kind != ValueKind::Permute || v.attrs != turn || !wanted[id]) continue;
    const ValueId operand = v.in[0];
    const Value& result = values[operand];
    if (!is_result(values, result) || uses[operand] != 1) continue;
    const bool first = is_attention(result);
    turned.result[operand] = true;
    turned.heads_first[first ? operand : result.in[0]] |= std::int64_t{1}
                                                          << (first ? 0 : result.number);
  }
  return turned;
}

// Keeps only what the library supports.
void ask_library(const Graph& graph, Turned& turned) {
  const Values& values = graph.values;
  for (const ValueId id : values.ids()) {
    if (turned.heads_first[id] == 0) continue;
    AttentionStep step = attention_of(values[id]);
    step.heads_first = static_cast<unsigned>(turned.heads_first[id]);
    const CallSupport support = graph.device->backend.takes(graph.device->index, step);
    if (support.taken) {
      turned.workspace[id] = support.workspace_bytes;
      continue;
    }
    turned.heads_first[id] = 0;
    turned.result[id] = false;
    for (const ValueId result : values.ids()) {
      if (values[result].kind == ValueKind::StepResult && values[result].in[0] == id)
        turned.result[result] = false;
    }
  }
}

}  // namespace

// The next product in a network reads the results of attention with heads second to last, as one
// row per position. Results that are held with heads first are written in that order directly.
void turn_attentions(Graph& graph) {
  const Values& values = graph.values;
  if (std::none_of(values.begin(), values.end(),
                   [&](const Value& v) { return is_result(values, v); })) {
    return;
  }
  Turned turned = turned_results(graph);
  ask_library(graph, turned);
  if (std::none_of(turned.result.begin(), turned.result.end(), [](bool is) { return is; })) return;
  rebuild(graph, [&](Rebuild& all, ValueId id, Value v) {
    if (v.kind == ValueKind::Permute && turned.result[all.before[id].in[0]])
      return Expr{&all.builder, v.in[0]};
    if (turned.heads_first[id] != 0)
      set_heads_first(v, static_cast<unsigned>(turned.heads_first[id]), turned.workspace[id]);
    if (turned.result[id]) v.shape = {v.shape[0], v.shape[2], v.shape[1], v.shape[3]};
    return all.builder.insert(std::move(v));
  });
}

}  // namespace volta::plan
