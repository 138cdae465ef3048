// Joins: values that lie one after the other in one buffer because whoever computes them writes
// them there.
#include <algorithm>

#include "plan/index_map.h"
#include "plan/ir.h"

namespace volta::plan {

Expr Lowering::placed(Expr a) {
  Value value{.kind = ValueKind::Placed, .dtype = a.dtype(), .shape = a.shape()};
  value.in[0] = a.id;
  value.number = placed_++;  // each has a place of its own
  value.stored = true;
  return insert(std::move(value));
}

Expr Lowering::join(std::span<const Expr> parts, int axis) {
  Expr whole = parts.front();
  for (const Expr& part : parts.subspan(1)) {
    const Shape before = whole.shape();
    Value value{.kind = ValueKind::Join,
                .dtype = part.dtype(),
                .shape = before.with(axis, before[axis] + part.shape()[axis])};
    value.in = {whole.id, part.id};
    value.attrs = {axis};
    whole = insert(std::move(value));
  }
  return whole;
}

// The last joins first: a join may be a part of another. Of one that nobody reads the parts have
// buffers of their own.
void Lowering::place_parts(const graph::Batch& batch) {
  const auto is_join = [](const Value& v) { return v.kind == ValueKind::Join; };
  if (std::none_of(values.begin(), values.end(), is_join)) return;
  const std::vector<int> uses = count_uses(batch);
  for (std::size_t i = values.size(); i-- > 0;) {
    const Value& join = values[i];
    if (join.kind != ValueKind::Join || uses[i] == 0) continue;
    const auto axis = static_cast<std::size_t>(join.attrs[0]);
    std::vector<std::int64_t> strides = join.home_strides;
    if (join.home < 0) {
      strides.assign(static_cast<std::size_t>(join.shape.rank()), 1);
      for (std::size_t d = strides.size() - 1; d-- > 0;)
        strides[d] = strides[d + 1] * join.shape[static_cast<int>(d) + 1];
    }
    const int home = join.home < 0 ? static_cast<int>(i) : join.home;
    std::int64_t offset = join.home_offset;
    for (const int in : {join.in[0], join.in[1]}) {
      Value& part = values[static_cast<std::size_t>(in)];
      part.home = home;
      part.home_offset = offset;
      part.home_strides = strides;
      offset += part.shape[static_cast<int>(axis)] * strides[axis];
    }
  }
}

int memory_of(const std::vector<Value>& values, int id) {
  const int home = values[static_cast<std::size_t>(id)].home;
  return home < 0 ? id : home;
}

Linear address_of(const Value& value, const IndexMap& index, std::size_t axes) {
  if (value.home < 0) return flatten(index, value.shape, axes);
  Linear number(axes);
  number.offset = value.home_offset;
  for (std::size_t d = 0; d < index.size(); ++d) number.add(index[d], value.home_strides[d]);
  return number;
}

bool is_dense(const Value& value) {
  if (value.home < 0) return true;
  std::int64_t stride = 1;
  for (int d = value.shape.rank() - 1; d >= 0; --d) {
    if (value.shape[d] != 1 && value.home_strides[static_cast<std::size_t>(d)] != stride)
      return false;
    stride *= value.shape[d];
  }
  return true;
}

}  // namespace volta::plan
