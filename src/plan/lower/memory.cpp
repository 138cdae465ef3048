// Placement of values in memory: stored values, and parts that are written directly into the memory
// of a whole.
#include <utility>

#include "plan/lower/builder.h"
#include "plan/lower/index_map.h"

namespace volta::plan {

Expr ValueBuilder::stored(Expr a) {
  values_[a.id].stored = true;
  return a;
}

Expr ValueBuilder::placed(Expr a) {
  Value value{.kind = ValueKind::Placed, .dtype = a.dtype(), .shape = a.shape()};
  value.in[0] = a.id;
  value.number = placed_++;  // every part has a place of its own
  value.stored = true;
  return insert(std::move(value));
}

Expr ValueBuilder::join(std::span<const Expr> parts, int axis) {
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

ValueId memory_of(const Values& values, ValueId id) {
  const ValueId home = values[id].home;
  return home.is_none() ? id : home;
}

Linear address_of(const Value& value, const IndexMap& index, std::size_t axes) {
  if (value.home.is_none()) return flatten(index, value.shape, axes);
  Linear number(axes);
  number.offset = value.home_offset;
  for (const AxisId d : index.ids()) number.add(index[d], value.home_strides[d.index()]);
  return number;
}

bool is_dense(const Value& value) {
  if (value.home.is_none()) return true;
  Extent stride = 1;
  for (int d = value.shape.rank() - 1; d >= 0; --d) {
    if (value.shape[d] != 1 && value.home_strides[AxisId(d).index()] != stride) return false;
    stride *= value.shape[d];
  }
  return true;
}

}  // namespace volta::plan
