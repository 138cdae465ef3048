// Formulas that several expansions use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/lower/lowering.h"

namespace volta::graph::expand {

// A fixed number of a formula, in the dtype of x.
inline plan::Expr literal(plan::Lowering& l, double number, plan::Expr x) {
  return l.constant(number, x.dtype());
}
// Halves in f32, for sums of products of them.
plan::Expr widened(plan::Lowering& l, plan::Expr x);
// One after the other along an axis.
plan::Expr concatenated(plan::Lowering& l, std::span<const plan::Expr> parts, int axis);
// The same of any number of parts: so many at once that a kernel has room for them.
plan::Expr joined(plan::Lowering& l, std::vector<plan::Expr> parts, int axis);
plan::Expr mean_over(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes,
                     bool keepdim);
// log of the sum of exponentials, axes kept as 1; the largest is taken out first.
plan::Expr log_sum_exp(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes);

}  // namespace volta::graph::expand
