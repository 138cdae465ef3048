// Sorts rows on the CPU; see plan::SortStep.
#pragma once

#include "backend/steps.h"

namespace volta::cpu {

// Uses several threads: for different rows, or for pieces of a single long row. `values` may be
// null.
void sort_rows(const plan::SortStep& step, const void* keys, void* indices, void* values);

}  // namespace volta::cpu
