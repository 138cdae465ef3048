// Rows at ids, for expansions: what several ids name is added up, or the last of it taken.
#pragma once

#include <cstdint>

#include "plan/ir.h"

namespace volta::graph::expand {

// rows [k, d] added into zeros [n, d] at ids [k] (Bounded by n), in order.
plan::Expr sum_rows_at(plan::Lowering& l, plan::Expr rows, plan::Expr ids, std::int64_t n,
                       int site);
// [n] (i32): the last place in ids [k] (Bounded by n) at which each number stands, -1 where it does
// not.
plan::Expr last_at(plan::Lowering& l, plan::Expr ids, std::int64_t n, int site);

}  // namespace volta::graph::expand
