// Who reads and who holds values.
#include "plan/passes/rewrite.h"

namespace volta::plan {

PerValue<bool> wanted_values(const Graph& graph) {
  PerValue<bool> wanted(graph.values, false);
  for (const graph::Node* node : graph.batch->nodes) {
    const ValueId value = graph.node_values[node->index];
    if (node->live && !value.is_none()) wanted[value] = true;
  }
  for (const ValueId value : graph.results) wanted[value] = true;
  return wanted;
}

PerValue<int> count_uses(const Graph& graph) {
  PerValue<int> uses(graph.values, 0);
  for (const graph::Node* node : graph.batch->nodes) {
    const ValueId value = graph.node_values[node->index];
    if (node->live && !value.is_none()) ++uses[value];
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
