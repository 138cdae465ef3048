// The numbers of values, and tables indexed by them.
#pragma once

#include "plan/lower/table.h"

namespace volta::plan {

struct Value;

// Names a value by its position in Values, or no value.
using ValueId = Id<Value>;

// A table with one item per value.
template <class T>
using PerValue = Table<ValueId, T>;

}  // namespace volta::plan
