// Formulas that several expansions use.
#pragma once

#include <cstdint>
#include <span>

#include "plan/ir.h"

namespace volta::graph::expand {

plan::Expr mean_over(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes,
                     bool keepdim);
// log of the sum of exponentials, axes kept as 1; the largest is taken out first.
plan::Expr log_sum_exp(plan::Lowering& l, plan::Expr x, std::span<const std::int64_t> axes);

}  // namespace volta::graph::expand
