// What each phase of a Row does with the elements of the row. Shared by the planner, which counts
// registers, and the emitter.
#pragma once

#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// Row values of one phase, in order: those taken from registers of an earlier phase, Loads issued
// for all items before anything waits for one, and what is computed element by element; of those
// the Reduces and Scans.
struct RowPhase {
  std::vector<int> fetch, loads, compute, reduces, scans;
};
struct RowPlan {
  std::vector<RowPhase> phases;
  std::vector<bool> kept;  // per instruction: its values stay in registers for all items
};
RowPlan plan_row(const Program& program);

// Registers of 4 bytes that one element of the row occupies between phases, if `items` keeps it.
VOLTA_BACKEND_API int kept_words(const Program& program);

}  // namespace volta::kernel
