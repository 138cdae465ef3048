// Formulas that several expansions use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/lower/lowering.h"

namespace volta::graph::expand {

// A constant of a formula, in the dtype of x.
inline plan::Expr literal(plan::Lowering& l, double number, plan::Expr x) {
  return l.constant(number, x.dtype());
}
// Converts halves to f32, for sums of their products.
plan::Expr widened(plan::Lowering& l, plan::Expr x);
// Concatenates parts along an axis.
plan::Expr concatenated(plan::Lowering& l, std::span<const plan::Expr> parts, int axis);
// Concatenates any number of parts, in steps that each fit into a kernel.
plan::Expr joined(plan::Lowering& l, std::vector<plan::Expr> parts, int axis);
plan::Expr mean_over(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes,
                     bool keepdim);
// The logarithm of the sum of exponentials, with reduced axes kept as 1. The largest element is
// subtracted first.
plan::Expr log_sum_exp(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes);

}  // namespace volta::graph::expand
