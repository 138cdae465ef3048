// What passes need to rewrite values: who reads a value, and all values built anew.
#pragma once

#include <utility>

#include "plan/lower/builder.h"

namespace volta::plan {

// Per value: whether somebody holds it.
PerValue<bool> wanted_values(const Graph& graph);
// Per value: how many needed values read it, and how many nodes hold it.
PerValue<int> count_uses(const Graph& graph);

// The values while they are built anew.
struct Rebuild {
  ValueBuilder& builder;  // builds the new ones
  const Values& before;
  const PerValue<ValueId>& renamed;  // per value before, as far as they are rebuilt: its new number
};

// Builds all values anew, in order: make(rebuild, id, value) gives the one to take the place of
// value `id`; the value passed has its operands renamed already. What is built has the label and
// epoch of the value it replaces.
template <class Make>
void rebuild(Graph& graph, const Make& make) {
  const Values before = std::exchange(graph.values, {});
  graph.values.reserve(before.size() * 2);
  ValueBuilder builder(graph.values, *graph.device);
  PerValue<ValueId> renamed(before);
  Rebuild all{builder, before, renamed};
  for (const ValueId id : before.ids()) {
    Value v = before[id];
    builder.set_origin({v.label, v.epoch, v.phase});
    for (ValueId& in : v.in) {
      if (!in.is_none()) in = renamed[in];
    }
    renamed[id] = make(all, id, std::move(v)).id;
  }
  for (ValueId& value : graph.node_values) {
    if (!value.is_none()) value = renamed[value];
  }
  for (ValueId& value : graph.results) value = renamed[value];
}

}  // namespace volta::plan
