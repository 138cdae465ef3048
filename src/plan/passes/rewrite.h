// Functions for passes that rewrite values: counting readers, and rebuilding all values.
#pragma once

#include <utility>

#include "plan/lower/builder.h"

namespace volta::plan {

// For each value, whether somebody holds it.
PerValue<bool> wanted_values(const Graph& graph);
// For each value, the number of needed values that read it plus the number of nodes that hold it.
PerValue<int> count_uses(const Graph& graph);

// The state of a rebuild.
struct Rebuild {
  ValueBuilder& builder;  // builds the new values
  const Values& before;
  const PerValue<ValueId>& renamed;  // for each old value that has been rebuilt, its new number
};

// Rebuilds all values in order: make(rebuild, id, value) returns the replacement of value `id`. The
// operands of the value passed to it are already renamed. New values get the label and epoch of the
// value that they replace.
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
