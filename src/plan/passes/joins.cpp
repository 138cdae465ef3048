// Places the parts of joins: values that are adjacent in one buffer because the kernels that
// compute them write them there.
#include <algorithm>

#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"

namespace volta::plan {

// Handles the last joins first, because a join may be a part of another one. If nothing reads a
// join, its parts have buffers of their own.
void place_parts(Graph& graph) {
  Values& values = graph.values;
  const auto is_join = [](const Value& v) { return v.kind == ValueKind::Join; };
  if (std::none_of(values.begin(), values.end(), is_join)) return;
  const PerValue<int> uses = count_uses(graph);
  for (const ValueId id : values.ids().backwards()) {
    const Value& join = values[id];
    if (join.kind != ValueKind::Join || uses[id] == 0) continue;
    const AxisId axis = static_cast<int>(join.attrs[0]);
    const PerAxis<Extent> strides =
        join.home.is_none() ? row_major_strides(join.shape)
                            : PerAxis<Extent>(join.home_strides.begin(), join.home_strides.end());
    const ValueId home = join.home.is_none() ? id : join.home;
    Extent offset = join.home_offset;
    for (const ValueId in : {join.in[0], join.in[1]}) {
      Value& part = values[in];
      part.home = home;
      part.home_offset = offset;
      part.home_strides = strides;
      offset += part.shape[axis] * strides[axis];
    }
  }
}

}  // namespace volta::plan
