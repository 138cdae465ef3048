// Builders of views, which become index expressions and never kernels.
#include <algorithm>
#include <utility>

#include "plan/lower/builder.h"

namespace volta::plan {

Expr ValueBuilder::reshape(Expr a, const Shape& shape) {
  if (a.shape() == shape) return a;
  if (at(a).kind == ValueKind::Reshape) return reshape({this, at(a).in[0]}, shape);
  if (at(a).kind == ValueKind::Expand && at({this, at(a).in[0]}).shape.numel() == 1) {
    return expand(reshape({this, at(a).in[0]}, Shape{}), shape);
  }
  Value value{.kind = ValueKind::Reshape, .dtype = a.dtype(), .shape = shape};
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr ValueBuilder::permute(Expr a, std::span<const std::int64_t> order) {
  const Shape from = a.shape();
  std::vector<Extent> sizes(order.size());
  bool in_order = true;  // whether only axes of size 1 move
  std::int64_t before = -1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sizes[i] = from[static_cast<int>(order[i])];
    if (sizes[i] == 1) continue;
    in_order = in_order && order[i] > before;
    before = order[i];
  }
  if (in_order) return reshape(a, Shape(sizes));
  const Expr inner{this, at(a).in[0]};
  if (at(a).kind == ValueKind::Permute) {
    std::vector<std::int64_t> both;
    for (const std::int64_t axis : order)
      both.push_back(at(a).attrs[static_cast<std::size_t>(axis)].fixed());
    return permute(inner, both);
  }
  if (at(a).kind == ValueKind::Expand && inner.shape().rank() == from.rank())
    return expand(permute(inner, order), Shape(sizes));
  Value value{.kind = ValueKind::Permute, .dtype = a.dtype(), .shape = Shape(sizes)};
  value.in[0] = a.id;
  value.attrs.assign(order.begin(), order.end());
  return insert(std::move(value));
}

Expr ValueBuilder::expand(Expr a, const Shape& shape) {
  if (a.shape() == shape) return a;
  if (a.shape().rank() < shape.rank()) {
    const Shape inner = a.shape();
    std::vector<Extent> sizes(shape.sizes().size(), 1);
    std::copy(inner.begin(), inner.end(), sizes.end() - inner.rank());
    a = reshape(a, Shape(sizes));
    if (a.shape() == shape) return a;
  }
  if (at(a).kind == ValueKind::Expand && at({this, at(a).in[0]}).shape.rank() == shape.rank()) {
    return expand({this, at(a).in[0]}, shape);
  }
  Value value{.kind = ValueKind::Expand, .dtype = a.dtype(), .shape = shape};
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr ValueBuilder::shrink(Expr a, std::span<const Extent> start, const Shape& shape) {
  if (a.shape() == shape) return a;
  Value value{.kind = ValueKind::Shrink, .dtype = a.dtype(), .shape = shape};
  value.in[0] = a.id;
  value.attrs.assign(start.begin(), start.end());
  return insert(std::move(value));
}

Expr ValueBuilder::affine(Expr a, std::vector<Extent> attrs, const Shape& shape) {
  Value value{.kind = ValueKind::Affine, .dtype = a.dtype(), .shape = shape};
  value.in[0] = a.id;
  value.attrs = std::move(attrs);
  return insert(std::move(value));
}

Expr ValueBuilder::stride(Expr a, std::span<const Extent> start, std::span<const Extent> step,
                          const Shape& shape) {
  if (std::all_of(step.begin(), step.end(), [](Extent n) { return n == 1; }))
    return shrink(a, start, shape);
  const std::size_t rank = step.size();
  std::vector<Extent> attrs((1 + rank) * rank, 0);
  for (std::size_t d = 0; d < rank; ++d) {
    attrs[(1 + rank) * d] = start[d];
    attrs[(1 + rank) * d + 1 + d] = step[d];
  }
  return affine(a, std::move(attrs), shape);
}

Expr ValueBuilder::windows(Expr a, std::int64_t axis, Extent size, Extent step, Extent spacing) {
  const Shape full = a.shape();
  const int at = static_cast<int>(axis);
  const std::size_t rank = full.sizes().size(), row = 2 + rank;
  std::vector<Extent> attrs(row * rank, 0);
  for (std::size_t d = 0; d < rank; ++d) attrs[row * d + 1 + d] = 1;
  Extent* along = attrs.data() + row * AxisId(at).index();
  along[1 + axis] = step;
  along[1 + rank] = spacing;
  const Shape outer = full.with(at, (full[at] - spacing * (size - 1) - 1) / step + 1);
  return affine(a, std::move(attrs), outer.inserted(full.rank(), size));
}

Expr ValueBuilder::shear(Expr a, std::int64_t axis) {
  const Shape full = a.shape();
  const int at = static_cast<int>(axis), last = full.rank() - 1;
  const Extent more = full[last] - 1;
  auto before = full.per_axis<Extent>(0);
  before[at] = more;
  const Expr padded = pad(a, before, full.with(at, full[at] + 2 * more), 0);
  const std::size_t rank = full.sizes().size(), row = 1 + rank;
  std::vector<Extent> attrs(row * rank, 0);
  for (std::size_t d = 0; d < rank; ++d) attrs[row * d + 1 + d] = 1;
  Extent* along = attrs.data() + row * AxisId(at).index();
  along[0] = more;
  along[rank] = -1;
  return affine(padded, std::move(attrs), full.with(at, full[at] + more));
}

Expr ValueBuilder::pad(Expr a, std::span<const Extent> before, const Shape& shape, double fill) {
  if (a.shape() == shape) return a;
  Value value{.kind = ValueKind::Pad, .dtype = a.dtype(), .shape = shape};
  value.in[0] = a.id;
  value.attrs.assign(before.begin(), before.end());
  value.constant = fill;
  return insert(std::move(value));
}

}  // namespace volta::plan
