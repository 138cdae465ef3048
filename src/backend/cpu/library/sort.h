// Sorting rows on the CPU: see plan::SortStep.
#pragma once

#include "plan/plan_steps.h"

namespace volta::cpu {

// Uses several threads: over rows, and over pieces of a single long one. `values` may be null.
void sort_rows(const plan::SortStep& step, const void* keys, void* indices, void* values);

}  // namespace volta::cpu
