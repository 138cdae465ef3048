// One use of a block program: sizes known, axes merged, addresses reduced to strides. Bound once
// when a plan is prepared; running it allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/block_program.h"

namespace volta::cpu {

// An affine index after merging: base + outer coefficients . outer point + position along the
// vector axes.
struct BoundAffine {
  std::int64_t base = 0;
  std::int64_t step = 0;    // along the last vector dimension
  bool linear = true;       // position * step holds over all vector dimensions
  std::uint32_t outer = 0;  // where its coefficients start in Launch::coefficients
  std::uint32_t vec = 0;
  std::int64_t high = 0;  // of a mask: valid while 0 <= value < high
};

struct BoundSite {
  int affine = 0;  // in Launch::affines; masks follow it
  int masks = 0;
  int slot = -1;
  bool once = false;              // Store: only at the first iteration point
  bool linear = true;             // the index and all masks are linear
  bool fixed_index = false;       // Gather: one index for a whole run of the last vector dimension
  std::int64_t value_stride = 0;  // Gather
  bool stream = false;            // Store: larger than the caches, and nobody reads it here
  std::size_t tile = 0;           // Load, Store: where in scratch it is turned over; 0: nowhere
  std::int64_t end = 0;  // elements that may be read: one past the largest index; 0: unknown
};

// Rows of a band: four cache lines of f32, which memory delivers much faster than one or two.
inline constexpr std::int64_t kBand = 64;
// Before the elements of a turned tile: the number of the band and column it holds.
inline constexpr std::size_t kTileHeader = 64;

// A value that varies along a row only, repeated for all rows of a block; where in scratch.
struct RepeatedValue {
  int value;
  std::size_t at;
};

struct Launch {
  std::shared_ptr<const BlockProgram> program;
  std::vector<std::int64_t> ints;
  std::vector<std::int64_t> vec_extents, outer_extents;  // merged; at least one vector dimension
  std::vector<BoundAffine> affines;
  std::vector<BoundSite> sites;
  std::vector<std::int64_t> coefficients;
  std::int64_t vec_points = 0, outer_points = 0;
  std::int64_t block = kBlock;  // elements per block: more than kBlock for long columns
  bool flat = false;            // blocks cross the ends of the (short) last dimension
  bool turned = false;          // neighbouring blocks lie below each other, in bands of kBand rows
  // Rows of the last dimension that share a block where they are short. Map: those that follow each
  // other; Lanes: the same one at as many Red points.
  std::int64_t together = 1;
  std::int64_t row_blocks = 1;   // blocks along the last dimension, when not flat
  std::int64_t blocks = 0;       // along the vector axes
  std::int64_t widest = 0;       // elements of the largest block
  std::int64_t tile_stride = 0;  // elements between rows of tiles, and of values kept by lanes
  std::int64_t units = 0;        // what is spread over threads: blocks, or outer points for Rows
  std::int64_t unit_work = 1;    // elements per unit
  bool keep = false;             // row values are kept between phases
  // Scratch of one thread, in bytes from its start.
  std::size_t accumulators = 0;  // first accumulator; one every accumulator_bytes
  std::size_t accumulator_bytes = 0;
  std::size_t scan_sums = 0;  // the running sums of Scans; one every scan_bytes
  std::size_t scan_bytes = 0;
  bool streams = false;             // some site streams
  int sum_levels = 0;               // Lanes: levels of the pairwise sum
  std::vector<std::size_t> row_at;  // per kept value
  // Map with rows together: what varies along the row only, and the rest, once per block.
  std::vector<Code> of_row, of_block;
  std::vector<RepeatedValue> repeated;  // in the order of of_row
  std::size_t scratch_bytes = 0;
};

Launch bind(std::shared_ptr<const BlockProgram> program, const std::vector<std::int64_t>& ints);

// What differs from run to run.
struct LaunchMemory {
  void* const* slots = nullptr;
  const std::uint64_t* args = nullptr;  // the binding's first argument
  kernel::ErrorRecord* error = nullptr;
};

// Runs units [begin, end) on the calling thread. `scratch` has scratch_bytes, aligned to 64.
void run_units(const Launch& launch, const LaunchMemory& memory, std::byte* scratch,
               std::int64_t begin, std::int64_t end);
// Runs what happens once, after all units.
void run_uniform_stores(const Launch& launch, const LaunchMemory& memory, std::byte* scratch);

}  // namespace volta::cpu
