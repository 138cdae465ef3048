// One use of a block program, with known sizes, merged axes and indices reduced to strides. It is
// bound once, when a plan is prepared; running it allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/executor/block_program.h"

namespace volta::cpu {

// An affine index after merging: base + (outer coefficients . outer point) + the offset along the
// vector axes.
struct BoundAffine {
  std::int64_t base = 0;
  std::int64_t step = 0;    // along the last vector dimension
  bool linear = true;       // position * step holds over all vector dimensions
  std::uint32_t outer = 0;  // its first coefficient in Launch::coefficients
  std::uint32_t vec = 0;
  std::int64_t high = 0;  // for a mask: valid while 0 <= value < high
};

struct BoundSite {
  int affine = 0;  // in Launch::affines; its masks follow it
  int masks = 0;
  int slot = -1;
  bool once = false;              // Store: only at the first iteration point
  bool linear = true;             // the index and all masks are linear
  bool fixed_index = false;       // Gather: one index for a whole run of the last dimension
  std::int64_t value_stride = 0;  // Gather
  bool stream = false;            // Store: larger than the caches and not read by this launch
  // Load, Store: offset in scratch of the tile in which it is transposed; 0 if it is not.
  std::size_t tile = 0;
  // The end of the readable elements, one past the largest index; 0 if unknown.
  std::int64_t end = 0;
};

// The number of rows in a band: four cache lines of f32, which memory delivers much faster than one
// or two.
inline constexpr std::int64_t kBand = 64;
// A transposed tile is preceded by a header that says which band and column it holds.
inline constexpr std::size_t kTileHeader = 64;

// A value that varies only along a row, repeated in scratch for all rows of a block.
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
  std::int64_t block = kBlock;  // elements per block: more than kBlock for long rows
  bool flat = false;            // blocks cross the ends of the (short) last dimension
  bool turned = false;          // blocks are visited down the rows, in bands of kBand rows
  // The number of short rows that share a block. Map: consecutive rows; Lanes: the same row at
  // consecutive Red points.
  std::int64_t together = 1;
  std::int64_t row_blocks = 1;   // blocks along the last dimension, when not flat
  std::int64_t blocks = 0;       // along the vector axes
  std::int64_t widest = 0;       // elements of the largest block
  std::int64_t tile_stride = 0;  // elements between rows of a tile, and of values kept by lanes
  std::int64_t units = 0;        // the units spread over threads: blocks, or outer points for Rows
  std::int64_t unit_work = 1;    // elements per unit
  bool keep = false;             // row values are kept from phase to phase
  // The layout of a thread's scratch memory, as byte offsets.
  std::size_t accumulators = 0;  // the first accumulator; the next follow at accumulator_bytes
  std::size_t accumulator_bytes = 0;
  std::size_t scan_sums = 0;  // the running sums of Scans, scan_bytes apart
  std::size_t scan_bytes = 0;
  bool streams = false;             // some site has `stream` set
  int sum_levels = 0;               // Lanes: levels of the pairwise sum
  std::vector<std::size_t> row_at;  // per kept value
  // Map with rows together: the code for values that vary only along the row, and the rest, run
  // once per block.
  std::vector<Code> of_row, of_block;
  std::vector<RepeatedValue> repeated;  // in the order of of_row
  std::size_t scratch_bytes = 0;
};

Launch bind(std::shared_ptr<const BlockProgram> program, const std::vector<std::int64_t>& ints);

// An estimate of the host memory that the launch takes, without its program.
std::uint64_t host_bytes(const Launch& launch);

// The addresses and arguments of one run.
struct LaunchMemory {
  void* const* slots = nullptr;
  const std::uint64_t* args = nullptr;  // the binding's first argument
  kernel::ErrorRecord* error = nullptr;
};

// Runs units [begin, end) on the calling thread. `scratch` has scratch_bytes, aligned to 64.
void run_units(const Launch& launch, const LaunchMemory& memory, std::byte* scratch,
               std::int64_t begin, std::int64_t end);
// Runs the stores that happen once, after all units.
void run_uniform_stores(const Launch& launch, const LaunchMemory& memory, std::byte* scratch);

}  // namespace volta::cpu
