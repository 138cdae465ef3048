// A kernel program while it is built: sizes are not parameters yet, and axes are not merged.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/program.h"
#include "plan/lower/index_map.h"

namespace volta::plan {

// An instruction with the expressions of its indices.
struct InstrDraft {
  kernel::Instr instr;
  Linear index = Linear(0);
  std::vector<LinearBound> mask = {};
  Extent value_stride = 0;
  Extent high = 0;
  std::int64_t site = 0;
  bool is_size = false;  // an Index instruction for a number that is known from shapes
};

struct ProgramDraft {
  // A one-element value whose shape has axes keeps one axis, so that it uses the same kernel as any
  // number of elements.
  bool unit = false;
  std::vector<Extent> extents = {};      // for each axis
  std::vector<kernel::Role> roles = {};  // for each axis
  std::vector<InstrDraft> instrs = {};
  int bound = -1;  // the instruction that computes the length of rows
  std::vector<kernel::Slot> slots = {};
  std::vector<ValueId> slot_values = {};         // for each slot
  std::vector<std::pair<int, DType>> args = {};  // numbers in the batch
};

}  // namespace volta::plan
