// Kernels of the sort, which is outside the kernel language: source templates for both dialects.
// Keys become unsigned integers of the same order and are sorted together with their positions. All
// pairs are distinct, so any correct sort is stable and gives the same result.
#pragma once

#include <cstdint>

#include "kernel/emit.h"

namespace volta::kernel {

struct SortOptions {
  DType dtype = DType::f32;        // of the keys
  DType index_dtype = DType::i64;  // of the positions
  bool descending = false;
  bool has_values = false;  // the sorted keys are wanted too
  bool last = false;        // the kernel writes the results; otherwise runs in scratch memory
  int tile = 0;             // Tiles: the elements that a block sorts, a power of two
};

inline constexpr int kSortThreads = 256;
inline constexpr int kSortTile = 2048;

// The bytes of a key as it is sorted; a position takes four more.
VOLTA_BACKEND_API std::size_t sort_key_bytes(DType dtype);

// Both kernels take buffers, then the integers, as described in kernel/emit.h with index64.
// The buffers are the keys, then for the last kernel indices (and values), for others the keys and
// positions of runs. The integers are rows, length, count, runs, width, next width.
//
// Tiles: block b sorts tile b % runs of row b / runs and writes the first `width` (last: `count`).
VOLTA_BACKEND_API KernelSource emit_sort_tiles(const SortOptions& options, Dialect dialect);
// Merge: after the keys come the keys and positions of `runs` runs of `width` per row. Each thread
// moves one element to its place in the union of its run and the neighbouring one.
VOLTA_BACKEND_API KernelSource emit_sort_merge(const SortOptions& options, Dialect dialect);

// The threads per block of the tile kernel.
VOLTA_BACKEND_API int sort_tile_threads(int tile);

}  // namespace volta::kernel
