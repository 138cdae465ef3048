// Movement that adds up or chooses, in primitives; used when a plan is built.
#include "graph/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using plan::Expr;
using plan::Lowering;

// Windows of `size` elements, `step` apart. With j = step k + r, element i step + j of the result
// is at step (i + k) + r: a sum over k along diagonals, the same for every r.
void fold(Lowering& l) {
  const Expr g = l.in(0);
  const Shape from = g.shape(), to = l.shape();
  const int axis = static_cast<int>(l.attrs()[0]), last = from.rank() - 1;
  const std::int64_t step = l.attrs()[1], size = from[last], count = from[axis], whole = to[axis];
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < to.rank(); ++i) {
    if (i < axis) outer *= to[i];
    if (i > axis) inner *= to[i];
  }
  const std::int64_t steps = (size + step - 1) / step, rows = count + steps - 1;
  const std::int64_t none[] = {0, 0, 0, 0}, order[] = {0, 1, 4, 2, 3}, sums = 4;
  Expr x = l.reshape(g, {outer, count, inner, size});
  x = l.pad(x, none, {outer, count, inner, steps * step}, 0);
  x = l.permute(l.reshape(x, {outer, count, inner, steps, step}), order);
  x = l.reduce(ReduceOp::Sum, l.shear(x, 1), {&sums, 1});
  x = l.reshape(x, {outer, rows * step, inner});
  const std::int64_t within = std::min(rows * step, whole);
  x = l.shrink(x, {none, 3}, {outer, within, inner});
  x = l.pad(x, {none, 3}, {outer, whole, inner}, 0);
  l.out(l.reshape(x, to));
}

}  // namespace volta::graph::expand
