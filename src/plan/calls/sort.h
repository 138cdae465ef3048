// A sort of rows as a library call.
#pragma once

#include <cstdint>

#include "plan/calls/call.h"

namespace volta::plan {

const Call& sort_call();

// Sorts the rows of keys [rows, n] and returns the positions [rows, count], of dtype `index`, of
// the first `count` keys in order. The sort is stable.
Expr sort(Lowering& lowering, Expr keys, Extent count, bool descending, DType index);
// The sorted keys that belong to the positions of a sort.
Expr sorted_keys(Lowering& lowering, Expr sort);

}  // namespace volta::plan
