// Composed operations in primitives, for building plans.
#include <numbers>
#include <numeric>

#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Lowering;
using plan::Shape;

// Sums over the axes that broadcasting added or stretched.
void sum_to(Lowering& l) {
  const Expr x = l.unrounded_in(0);
  const Shape from = x.shape(), to = l.shape();
  const int added = from.rank() - to.rank();
  std::vector<std::int64_t> axes;
  for (int i = 0; i < from.rank(); ++i) {
    if (i < added || (to[i - added] == 1 && from[i] != 1)) axes.push_back(i);
  }
  l.out(l.reshape(l.reduce(ReduceOp::Sum, x, axes), to));
}

void matmul(Lowering& l) {
  const auto attrs = l.attrs();
  l.out(
      plan::matmul(l, l.stored_in(0), l.stored_in(1), attrs[0] != 0, attrs[1] != 0, attrs[2] != 0));
}

void linear(Lowering& l) {
  Expr y = plan::matmul(l, l.in(0), l.in(1), false, true, l.attrs()[0] != 0);
  if (l.inputs() > 2) y = y + l.in(2);
  l.out(y);
}

// Inputs: x, eps, weight, bias.
void layer_norm(Lowering& l) {
  const Expr x = l.in(0);
  const int rank = x.shape().rank();
  std::vector<std::int64_t> axes(static_cast<std::size_t>(l.attrs()[0]));
  std::iota(axes.begin(), axes.end(), rank - l.attrs()[0]);
  const Expr mean = mean_over(l, x, axes, true);
  const Expr d = x - mean;
  const Expr r = l.unary(ScalarOp::rsqrt, mean_over(l, d * d, axes, true) + l.in(1));
  Expr y = d * r;
  if (l.inputs() > 2) y = y * l.in(2);
  if (l.inputs() > 3) y = y + l.in(3);
  l.out(0, y);
  l.out(1, mean);
  l.out(2, r);
}

// Inputs: x, seed, offset, p.
void dropout(Lowering& l) {
  const Expr x = l.in(0), p = l.in(3);
  const Expr u = l.philox(l.in(1), l.in(2), x.shape(), DType::f32);
  const Expr keep = l.binary(ScalarOp::le, p, u);
  const Expr scale = l.constant(1, DType::f32) / (l.constant(1, DType::f32) - p);
  l.out(l.where(keep, x * l.cast(scale, x.dtype()), literal(l, 0, x)));
}

// The Box-Muller transform, with two uniform numbers for each normal one.
void normal(Lowering& l) {
  const DType dtype = l.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Expr u = l.philox(l.in(0), l.in(1), l.shape(), dtype, 2, 0);
  const Expr v = l.philox(l.in(0), l.in(1), l.shape(), dtype, 2, 1);
  const Expr radius =
      l.unary(ScalarOp::sqrt, literal(l, -2, u) * l.unary(ScalarOp::log, literal(l, 1, u) - u));
  l.out(
      l.cast(radius * l.unary(ScalarOp::cos, literal(l, 2 * std::numbers::pi, v) * v), l.dtype()));
}

}  // namespace volta::graph::expand
