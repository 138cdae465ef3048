// The state of one Reduce while its elements arrive block by block. The order of combination
// depends on the sizes alone: floats are summed in short runs whose sums join a pairwise tree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/vector/simd_table.h"
#include "kernel/program.h"

namespace volta::cpu {

// The length of the runs that are summed in order before they join the tree: steps of a lane,
// elements of a row.
inline constexpr std::int64_t kLaneRun = 32;
inline constexpr std::int64_t kRowRun = 4096;
// The memory of a row's reduction: the running fold, the levels of the tree, a counter.
inline constexpr std::size_t kRowReductionBytes = 40 * kFoldBytes;

struct Reduction {
  kernel::ReduceOp op;
  DType dtype;              // of the values
  int levels;               // Lanes: levels of the tree in `state`; 0 sums in order
  std::size_t level_bytes;  // Lanes: the size of a level
  void* result;             // the register of the Reduce
  std::byte* state;
  std::int64_t run_blocks;  // Rows: the number of blocks in a run
};

// Mode Lanes has one reduction per lane; `step` counts the Red points.
void begin_lanes(const Reduction& reduction, std::int64_t lanes);
void accumulate_lanes(const Reduction& reduction, const void* values, std::int64_t step,
                      std::int64_t lanes);
// Accumulates all steps at once; their rows are `stride` elements apart in memory.
void accumulate_lane_rows(const Reduction& reduction, const void* values, std::int64_t stride,
                          std::int64_t steps, std::int64_t lanes);
bool folds_rows(kernel::ReduceOp op, DType dtype);
// Accumulates the last step if only the first `lanes` lanes have one.
void accumulate_first_lanes(const Reduction& reduction, const void* values, std::int64_t lanes);
// Combines the lanes of all `groups` (a power of two) into those of the first group.
void join_groups(const Reduction& reduction, std::int64_t groups, std::int64_t lanes);
void finish_lanes(const Reduction& reduction, std::int64_t steps, std::int64_t lanes);

// Whether values are combined element by element with a kernel of SimdTable::fold.
bool folds(kernel::ReduceOp op);

// Mode Rows accumulates n elements of one row, starting at `position`; the result goes to lane 0.
// `streamed` says that they are read from memory rather than registers.
void begin_row(const Reduction& reduction);
void accumulate_row(const Reduction& reduction, const void* values, std::int64_t position,
                    std::int64_t n, bool streamed = false);
// Must be called after a chain has folded a block into `state`.
void folded_block(const Reduction& reduction);
void finish_row(const Reduction& reduction);

}  // namespace volta::cpu
