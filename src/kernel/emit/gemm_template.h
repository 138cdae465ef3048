// Kernels of matrix products, which are outside the kernel language: source templates for both
// dialects. There is a kernel for each tile, dtype, transposition and choice of operands that are
// read as vectors; sizes, leading dimensions and offsets are integer parameters.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/emit.h"

namespace volta::kernel {

// How a block divides a product. A block computes rows x columns of C. Each of its `slices` sums
// its own range of k, `depth` elements at a time, and slice 0 adds these sums up in order. A thread
// holds thread_tile x thread_tile results in registers.
struct GemmTile {
  int rows = 0, columns = 0, depth = 0, thread_tile = 0, slices = 1;

  // The threads of a slice, and of the block.
  int slice_threads() const { return rows / thread_tile * (columns / thread_tile); }
  int threads() const { return slice_threads() * slices; }
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};

struct GemmOptions {
  DType dtype = DType::f32;         // of A and B
  DType result_dtype = DType::f32;  // of C; f16 and bf16 are accumulated in f32
  bool transpose_a = false, transpose_b = false;
  // Whether the matrix is read or written in vectors of gemm_vector(dtype) elements: its address,
  // row stride, batch stride and the extent along its rows are multiples of that.
  bool vector_a = false, vector_b = false, vector_c = false;
  bool index64 = false;  // some matrix has 2^31 elements or more
  GemmTile tile = {};
};

// The kernels take buffers, then these integers, as described in kernel/emit.h with index64.
struct GemmIntegers {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::int64_t lda = 0, ldb = 0, ldc = 0, stride_a = 0, stride_b = 0, stride_c = 0;
  std::int64_t offset_a = 0, offset_b = 0;
  std::int64_t slice = 0;  // elements of k per slice, a multiple of the tile's depth
  std::int64_t tiles_m = 0, tiles_n = 0;
  std::int64_t chunks = 1;  // ranges of k that separate blocks add up
};
inline constexpr std::size_t kGemmIntegers = sizeof(GemmIntegers) / sizeof(std::int64_t);

// The number of elements in a vector.
VOLTA_BACKEND_API int gemm_vector(DType dtype);
// The dtype in which products of `dtype` are accumulated.
VOLTA_BACKEND_API DType gemm_sum_dtype(DType dtype);

// Takes the buffers a, b, c and runs chunks * batch * tiles_m * tiles_n blocks. With several
// chunks, c receives one result per chunk, [chunks, batch, m, n], in the accumulation dtype.
VOLTA_BACKEND_API KernelSource emit_gemm(const GemmOptions& options, Dialect dialect);
// For CPU devices, OpenCL only: a block is one thread, which keeps a panel of B and a strip of
// results in its caches and works on whole vectors. options.tile is ignored.
VOLTA_BACKEND_API KernelSource emit_gemm_strip(const GemmOptions& options);
// Takes the buffers of partial sums and c; adds up the chunks of each result in order, one thread
// per result.
VOLTA_BACKEND_API KernelSource emit_gemm_sum(const GemmOptions& options, Dialect dialect);

inline constexpr int kGemmSumThreads = 256;
inline constexpr int kGemmStripRows = 64, kGemmStripColumns = 64;

}  // namespace volta::kernel
