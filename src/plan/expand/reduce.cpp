// Reductions and operations composed of them, in primitives, for building plans.
#include <bit>
#include <cmath>
#include <limits>

#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;

namespace {

Extent elements(Expr x, std::span<const std::int64_t> axes) {
  Extent count = 1;
  for (const std::int64_t axis : axes) count *= x.shape()[static_cast<int>(axis)];
  return count;
}

// Whether a count of elements is at most `number`.
bool is_at_most(Extent count, double number) {
  constexpr double kLargest = 0x1p62;  // larger than any count
  return number >= kLargest || (number >= 0 && count <= static_cast<std::int64_t>(number));
}

// Attributes: the bits of the correction, axes.
Expr variance(Lowering& l) {
  const Expr x = l.in(0);
  const auto axes = l.attrs().subspan(1);
  const double correction = std::bit_cast<double>(l.attrs()[0]);
  const Extent count = elements(x, axes);
  const Expr d = x - mean_over(l, x, axes, true);
  const Expr divisor = is_at_most(count, correction)
                           ? literal(l, 0, x)
                           : l.size(count, x.dtype()) - literal(l, correction, x);
  return l.reduce(ReduceOp::Sum, d * d, axes) / divisor;
}

void extremum_along(Lowering& l, ReduceOp value, ReduceOp position) {
  const Expr x = l.in(0);
  l.out(0, l.reduce(value, x, l.attrs()));
  l.out(1, l.reduce(position, x, l.attrs()));
}

}  // namespace

Expr mean_over(Lowering& l, Expr x, std::span<const std::int64_t> axes, bool keepdim) {
  return l.reduce(ReduceOp::Sum, x, axes, keepdim) / l.size(elements(x, axes), x.dtype());
}

Expr log_sum_exp(Lowering& l, Expr x, std::span<const std::int64_t> axes) {
  const Expr largest = l.reduce(ReduceOp::Max, x, axes, true);
  // An infinite maximum would give inf - inf.
  const Expr infinity = literal(l, std::numeric_limits<double>::infinity(), x);
  const Expr finite = l.binary(ScalarOp::lt, l.unary(ScalarOp::abs, largest), infinity);
  const Expr top = l.where(finite, largest, literal(l, 0, x));
  const Expr sum = l.reduce(ReduceOp::Sum, l.unary(ScalarOp::exp, x - top), axes, true);
  return l.unary(ScalarOp::log, sum) + top;
}

void mean(Lowering& l) { l.out(mean_over(l, l.in(0), l.attrs(), false)); }
void max_along(Lowering& l) { extremum_along(l, ReduceOp::Max, ReduceOp::ArgMax); }
void min_along(Lowering& l) { extremum_along(l, ReduceOp::Min, ReduceOp::ArgMin); }
void var(Lowering& l) { l.out(variance(l)); }
void std(Lowering& l) { l.out(l.unary(ScalarOp::sqrt, variance(l))); }

// Attributes: the bits of p, axes.
void norm(Lowering& l) {
  const double p = std::bit_cast<double>(l.attrs()[0]);
  const auto axes = l.attrs().subspan(1);
  const Expr x = l.in(0), size = l.unary(ScalarOp::abs, x);
  if (std::isinf(p)) return l.out(l.reduce(p > 0 ? ReduceOp::Max : ReduceOp::Min, size, axes));
  if (p == 0) {
    const Expr counted = l.cast(l.binary(ScalarOp::ne, x, literal(l, 0, x)), x.dtype());
    return l.out(l.reduce(ReduceOp::Sum, counted, axes));
  }
  if (p == 1) return l.out(l.reduce(ReduceOp::Sum, size, axes));
  if (p == 2) return l.out(l.unary(ScalarOp::sqrt, l.reduce(ReduceOp::Sum, x * x, axes)));
  const Expr power = l.cast(l.in(1), x.dtype());
  const Expr sum = l.reduce(ReduceOp::Sum, l.binary(ScalarOp::pow, size, power), axes);
  l.out(l.binary(ScalarOp::pow, sum, literal(l, 1, x) / power));
}

void logsumexp(Lowering& l) { l.out(l.reshape(log_sum_exp(l, l.in(0), l.attrs()), l.shape())); }

void softmax(Lowering& l) {
  const Expr x = l.in(0);
  const auto axis = l.attrs();
  const Expr e = l.unary(ScalarOp::exp, x - l.reduce(ReduceOp::Max, x, axis, true));
  // One division per row is safe, because the sum is between 1 and the length of the row.
  l.out(e * (literal(l, 1, x) / l.reduce(ReduceOp::Sum, e, axis, true)));
}
void log_softmax(Lowering& l) {
  const Expr x = l.in(0);
  const Expr shifted = x - l.reduce(ReduceOp::Max, x, l.attrs(), true);
  const Expr sum = l.reduce(ReduceOp::Sum, l.unary(ScalarOp::exp, shifted), l.attrs(), true);
  l.out(shifted - l.unary(ScalarOp::log, sum));
}

}  // namespace volta::graph::expand
