// Rows scattered by ids, for expansions: rows with the same id are added up, or the last one is
// taken.
#pragma once

#include <cstdint>

#include "plan/lower/lowering.h"

namespace volta::graph::expand {

// Adds rows [k, d] into zeros [n, d] at ids [k] (Bounded by n), in order.
plan::Expr sum_rows_at(plan::Lowering& l, plan::Expr rows, plan::Expr ids, plan::Extent n,
                       int site);
// For each number below n, the last position in ids [k] (Bounded by n) at which it occurs, as i32
// [n]; -1 if it does not occur.
plan::Expr last_at(plan::Lowering& l, plan::Expr ids, plan::Extent n, int site);

}  // namespace volta::graph::expand

namespace volta::plan {

// Whether k rows of d elements are added into n results by comparing every result with every id.
// Comparing takes n * k * d operations in a kernel that fuses; the alternative is a sort and a few
// launches.
VOLTA_BACKEND_API bool scatter_compares_all(std::int64_t n, std::int64_t k, std::int64_t d);

}  // namespace volta::plan
