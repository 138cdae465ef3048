// Sorting and running sums in primitives.
#include "plan/calls/sort.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using plan::Expr;
using plan::Lowering;
using plan::Shape;

void cumsum(Lowering& l) { l.out(l.scan(l.in(0), l.attrs()[0], l.attrs()[1] != 0)); }

// Attributes: count, descending.
void sort(Lowering& l) {
  const Expr x = l.stored_in(0);
  const Shape shape = around(x.shape(), x.shape().rank() - 1);
  const plan::Extent count = l.open_attrs()[0];
  const Expr rows = l.reshape(x, {shape[0], shape[1]});
  const Expr order = plan::sort(l, rows, count, l.open_attrs()[1] != 0, DType::i64);
  l.out(0, l.reshape(plan::sorted_keys(l, order), l.shape()));
  l.out(1, l.reshape(order, l.shape()));
}

}  // namespace volta::graph::expand
