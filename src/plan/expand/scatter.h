// Rows at ids, for expansions: what several ids name is added up, or the last of it taken.
#pragma once

#include <cstdint>

#include "plan/lower/lowering.h"

namespace volta::graph::expand {

// rows [k, d] added into zeros [n, d] at ids [k] (Bounded by n), in order.
plan::Expr sum_rows_at(plan::Lowering& l, plan::Expr rows, plan::Expr ids, plan::Extent n,
                       int site);
// [n] (i32): the last place in ids [k] (Bounded by n) at which each number stands, -1 where it does
// not.
plan::Expr last_at(plan::Lowering& l, plan::Expr ids, plan::Extent n, int site);

}  // namespace volta::graph::expand

namespace volta::plan {

// Whether k rows of d elements are added into n by comparing every result with every id: work of
// n * k * d in a kernel that fuses, against a sort and a few launches that move what there is.
VOLTA_BACKEND_API bool scatter_compares_all(std::int64_t n, std::int64_t k, std::int64_t d);

}  // namespace volta::plan
