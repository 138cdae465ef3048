// Kernels of matrix products, which lie outside the kernel language: source templates for both
// dialects. A kernel stands for a way to cut the work, dtypes, transposes and which operands are
// read by vectors; sizes, leading dimensions and offsets are integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/emit.h"

namespace volta::kernel {

// How a block cuts a product. A block computes rows x columns of C; each of its `slices` adds up a
// stretch of k of its own, `depth` elements at a time, and slice 0 adds those up in order. A thread
// has thread_tile x thread_tile results in registers.
struct GemmTile {
  int rows = 0, columns = 0, depth = 0, thread_tile = 0, slices = 1;

  // Threads of a slice, and of the block.
  int slice_threads() const { return rows / thread_tile * (columns / thread_tile); }
  int threads() const { return slice_threads() * slices; }
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};

struct GemmOptions {
  DType dtype = DType::f32;         // of A and B
  DType result_dtype = DType::f32;  // of C; halves are added up in f32
  bool transpose_a = false, transpose_b = false;
  // The operand is read, C is written by vectors of gemm_vector(dtype): its address, row stride,
  // batch stride and the extent along its rows are multiples of that.
  bool vector_a = false, vector_b = false, vector_c = false;
  bool index64 = false;  // some matrix has 2^31 elements or more
  GemmTile tile = {};
};

// The kernels take buffers, then these integers, as told in kernel/emit.h with index64.
struct GemmIntegers {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0, stride_a = 0, stride_b = 0, stride_c = 0;
  std::int64_t offset_a = 0, offset_b = 0;
  std::int64_t slice = 0;  // elements of k a slice adds up, a multiple of the tile's depth
  std::int64_t tiles_m = 0, tiles_n = 0;
  std::int64_t chunks = 1;  // stretches of k that blocks of their own add up
};
inline constexpr std::size_t kGemmIntegers = sizeof(GemmIntegers) / sizeof(std::int64_t);

// Elements of a vector.
VOLTA_BACKEND_API int gemm_vector(DType dtype);
// The dtype products of `dtype` are added up in.
VOLTA_BACKEND_API DType gemm_sum_dtype(DType dtype);

// Buffers a, b, c; chunks * batch * tiles_m * tiles_n blocks. With several chunks, c gets one
// result per chunk, [chunks, batch, m, n], of the dtype of sums.
VOLTA_BACKEND_API KernelSource emit_gemm(const GemmOptions& options, Dialect dialect);
// For CPU devices, OpenCL only: a block is one thread, which keeps a panel of B and a strip of
// results in its caches and works on whole vectors; options.tile is not looked at.
VOLTA_BACKEND_API KernelSource emit_gemm_strip(const GemmOptions& options);
// Buffers partial sums, c: adds up the chunks of each result in their order. A thread per result.
VOLTA_BACKEND_API KernelSource emit_gemm_sum(const GemmOptions& options, Dialect dialect);

inline constexpr int kGemmSumThreads = 256;
inline constexpr int kGemmStripRows = 64, kGemmStripColumns = 64;

}  // namespace volta::kernel
