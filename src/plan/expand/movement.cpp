// Operations that move elements and add or select them, in primitives, for building plans.
#include <algorithm>

#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

// Windows of `size` elements, `step` apart. With j = step k + r, element i step + j of the result
// is at step (i + k) + r: a sum over k along diagonals, the same for every r.
void fold(Lowering& l) {
  const Expr g = l.in(0);
  const Shape from = g.shape(), to = l.shape();
  const int axis = static_cast<int>(l.open_attrs()[0].fixed()), last = from.rank() - 1;
  const Extent step = l.open_attrs()[1], size = from[last], count = from[axis], whole = to[axis];
  Extent outer = 1, inner = 1;
  for (int i = 0; i < to.rank(); ++i) {
    if (i < axis) outer *= to[i];
    if (i > axis) inner *= to[i];
  }
  const Extent steps = (size + step - 1) / step, rows = count + steps - 1;
  const std::int64_t order[] = {0, 1, 4, 2, 3}, sums = 4;
  const Extent none[] = {0, 0, 0, 0};
  Expr x = l.reshape(g, {outer, count, inner, size});
  x = l.pad(x, none, {outer, count, inner, steps * step}, 0);
  x = l.permute(l.reshape(x, {outer, count, inner, steps, step}), order);
  x = l.reduce(ReduceOp::Sum, l.shear(x, 1), {&sums, 1});
  x = l.reshape(x, {outer, rows * step, inner});
  const Extent within = plan::lesser(rows * step, whole);
  x = l.shrink(x, std::span(none).first(3), {outer, within, inner});
  x = l.pad(x, std::span(none).first(3), {outer, whole, inner}, 0);
  l.out(l.reshape(x, to));
}

Expr widened(Lowering& l, Expr x) {
  const bool half = x.dtype() == DType::f16 || x.dtype() == DType::bf16;
  return half ? l.cast(x, DType::f32) : x;
}

// Pads each operand to the whole size and selects by position; a sum would lose -0 and NaN.
Expr concatenated(Lowering& l, std::span<const Expr> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  Extent along = 0;
  for (const Expr& part : parts) along += part.shape()[axis];
  const Shape whole = parts[0].shape().with(axis, along);
  const Expr position = l.iota(whole, axis);
  auto before = whole.per_axis<Extent>(0);
  Extent& start = before[axis];
  Expr result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Extent size = parts[i].shape()[axis];
    if (size == 0 && !(i + 1 == parts.size() && start == 0)) continue;
    const Expr padded = widened(l, l.pad(parts[i], before, whole, 0));
    result = start == 0 ? padded
                        : l.where(l.binary(ScalarOp::lt, position, l.size(start, DType::i64)),
                                  result, padded);
    start += size;
  }
  return result;
}

Expr joined(Lowering& l, std::vector<Expr> parts, int axis) {
  constexpr std::size_t kAtOnce = 16;
  while (parts.size() > kAtOnce) {
    const DType dtype = parts.front().dtype();
    std::vector<Expr> longer;
    for (std::size_t i = 0; i < parts.size(); i += kAtOnce) {
      const auto some = std::span(parts).subspan(i, std::min(kAtOnce, parts.size() - i));
      longer.push_back(l.stored(l.cast(concatenated(l, some, axis), dtype)));
    }
    parts = std::move(longer);
  }
  return concatenated(l, parts, axis);
}

void concat(Lowering& l) {
  std::vector<Expr> parts;
  for (int i = 0; i < l.inputs(); ++i) parts.push_back(l.stored_in(i));
  const Expr whole = concatenated(l, parts, static_cast<int>(l.attrs()[0]));
  l.out(widened(l, whole));
}

}  // namespace volta::graph::expand
