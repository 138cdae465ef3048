// Counts the readers and holders of values.
#include "plan/passes/rewrite.h"

namespace volta::plan {

PerValue<bool> wanted_values(const Graph& graph) {
  PerValue<bool> wanted(graph.values, false);
  for (std::size_t n = 0; n < graph.node_values.size(); ++n) {
    const ValueId value = graph.node_values[n];
    if (graph.view->wanted(n) != Wanted::No && !value.is_none()) wanted[value] = true;
  }
  for (const ValueId value : graph.results) wanted[value] = true;
  return wanted;
}

PerValue<int> count_uses(const Graph& graph) {
  PerValue<int> uses(graph.values, 0);
  for (std::size_t n = 0; n < graph.node_values.size(); ++n) {
    const ValueId value = graph.node_values[n];
    if (graph.view->wanted(n) != Wanted::No && !value.is_none()) ++uses[value];
  }
  for (const ValueId value : graph.results) ++uses[value];
  for (const ValueId id : graph.values.ids().backwards()) {
    if (uses[id] == 0) continue;
    for (const ValueId in : graph.values[id].in) {
      if (!in.is_none()) ++uses[in];
    }
  }
  return uses;
}

}  // namespace volta::plan
