// The plan of what each phase of a Row does with the elements of the row. Shared by the planner,
// which counts registers, and the emitter.
#pragma once

#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// The row values of one phase, each list in program order: values kept in registers since an
// earlier phase, Loads that are issued for all items before any is used, and values computed
// element by element; `reduces` and `scans` are among the latter.
struct RowPhase {
  std::vector<int> fetch, loads, compute, reduces, scans;
};
struct RowPlan {
  std::vector<RowPhase> phases;
  std::vector<bool> kept;  // per instruction: its values stay in registers for all items
};
RowPlan plan_row(const Program& program);

// The number of 4-byte registers that one row element occupies between phases if `items` keeps it.
VOLTA_BACKEND_API int kept_words(const Program& program);

}  // namespace volta::kernel
