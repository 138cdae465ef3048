// Kernels of the sort, which lies outside the kernel language: source templates for both dialects.
// Keys become unsigned integers in their order and are sorted together with their positions, so
// that every pair is different: any correct sort is then stable and gives the same result.
#pragma once

#include <cstdint>

#include "kernel/emit.h"

namespace volta::kernel {

struct SortOptions {
  DType dtype = DType::f32;        // of the keys
  DType index_dtype = DType::i64;  // of the positions
  bool descending = false;
  bool has_values = false;  // the keys found are wanted, too
  bool last = false;        // the kernel writes results, else runs in scratch memory
  int tile = 0;             // Tiles: elements a block sorts, a power of two
};

inline constexpr int kSortThreads = 256;
inline constexpr int kSortTile = 2048;

// Elements of a key as it is sorted, in bytes; a position takes four more.
VOLTA_BACKEND_API std::size_t sort_key_bytes(DType dtype);

// Both kernels take buffers, then the integers, as told in kernel/emit.h with index64. Buffers:
// keys; then for the last kernel indices (and values), for others run keys and run positions.
// Integers: rows, length, count, runs, width, next width.
//
// Tiles: block b sorts tile b % runs of row b / runs and writes the first `width` (last: `count`).
VOLTA_BACKEND_API KernelSource emit_sort_tiles(const SortOptions& options, Dialect dialect);
// Merge: after the keys come the run keys and positions of `runs` runs of `width` per row; each
// thread takes one element to its place in the union of its run and the neighbour's.
VOLTA_BACKEND_API KernelSource emit_sort_merge(const SortOptions& options, Dialect dialect);

// Threads per block of the two kernels.
VOLTA_BACKEND_API int sort_tile_threads(int tile);

}  // namespace volta::kernel
