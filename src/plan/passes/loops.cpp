// Loops side by side.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/calls/loop.h"
#include "plan/passes/passes.h"

namespace volta::plan {
namespace {

// For each value, the loops on the longest path to it, itself included. Loops with the same number
// do not need each other.
PerValue<int> loop_depths(const Values& values) {
  PerValue<int> depth(values, 0);
  for (const ValueId id : values.ids()) {
    for (const ValueId in : values[id].in) {
      if (!in.is_none()) depth[id] = std::max(depth[id], depth[in]);
    }
    if (is_loop(values[id])) ++depth[id];
  }
  return depth;
}

// Puts the values in another order, in which every value follows its operands.
void reorder(Graph& graph, const std::vector<ValueId>& order) {
  Values before = std::exchange(graph.values, {});
  PerValue<ValueId> renamed(before);
  graph.values.reserve(before.size());
  for (const ValueId id : order) {
    Value v = std::move(before[id]);
    for (ValueId& in : v.in) {
      if (!in.is_none()) in = renamed[in];
    }
    renamed[id] = graph.values.add(std::move(v));
  }
  for (ValueId& value : graph.node_values) {
    if (!value.is_none()) value = renamed[value];
  }
  for (auto& [node, value] : graph.leaf_values) value = renamed[value];
}

// Makes one loop of some that do not need each other: the first one computes everything, and the
// others become further results of it.
void merge(Graph& graph, const std::vector<ValueId>& loops) {
  Values& values = graph.values;
  Value& all = values[loops.front()];
  Loop merged = graph.loop(all.number);
  std::vector<ValueId> operands;
  const auto add_operands = [&](const Value& v) {
    for (const ValueId in : v.in) {
      if (!in.is_none()) operands.push_back(in);
    }
  };
  add_operands(all);
  std::map<ValueId, int> first_result;  // by loop
  for (std::size_t n = 1; n < loops.size(); ++n) {
    Value& other = values[loops[n]];
    const Loop& loop = graph.loop(other.number);
    add_operands(other);
    const int first = merged.results();
    first_result[loops[n]] = first;
    merged.parts.insert(merged.parts.end(), loop.parts.begin(), loop.parts.end());
    other.kind = ValueKind::StepResult;
    other.call = nullptr;
    other.in = {loops.front()};
    other.number = first;
  }
  for (Value& v : values) {
    if (v.kind != ValueKind::StepResult) continue;
    const auto found = first_result.find(v.in[0]);
    if (found == first_result.end()) continue;
    v.in[0] = loops.front();
    v.number += found->second;
  }
  all.in = Operands(std::move(operands));
  all.number = static_cast<int>(graph.loops.size());
  graph.loops.push_back(std::make_shared<Loop>(std::move(merged)));
}

}  // namespace

// Both directions of a layer, for instance: their iterations then share launches.
void merge_loops(Graph& graph) {
  if (graph.loops.size() < 2) return;
  const PerValue<int> depth = loop_depths(graph.values);
  // Loops of the same depth, epoch, phase, length and text.
  using Kind =
      std::tuple<int, std::uint32_t, std::uint32_t, std::int64_t, std::uint32_t, std::string>;
  std::map<Kind, std::vector<ValueId>> alike;
  bool any = false;
  for (const ValueId id : graph.values.ids()) {
    const Value& v = graph.values[id];
    if (!is_loop(v)) continue;
    const Loop& loop = graph.loop(v.number);
    auto& loops = alike[{depth[id], v.epoch, v.phase, loop.length.hint(), loop.length.expression(),
                         loop.text}];
    loops.push_back(id);
    any = any || loops.size() > 1;
  }
  if (!any) return;
  for (const auto& [kind, loops] : alike) {
    if (loops.size() > 1) merge(graph, loops);
  }
  // The operands of all loops of one depth come before the first of these loops.
  std::vector<ValueId> order;
  for (const ValueId id : graph.values.ids()) order.push_back(id);
  const auto place = [&](ValueId id) {
    return 2 * depth[id] - (is_loop(graph.values[id]) ? 1 : 0);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](ValueId a, ValueId b) { return place(a) < place(b); });
  reorder(graph, order);
}

}  // namespace volta::plan
