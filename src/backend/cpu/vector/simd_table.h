// The SIMD kernels behind the CPU executor: one table of function pointers, filled for the best
// instruction set of the machine at first use. A kernel is a tight loop over one block of values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/program.h"
#include "volta/dtype.h"

namespace volta::cpu {

// The number of elements in a block. As measured, 128 keeps the registers of an eight-op chain in
// the first-level cache.
inline constexpr std::int64_t kBlock = 128;
// Kernels read and write whole vectors: up to the next multiple of kPad elements past n.
inline constexpr std::int64_t kPad = 64;
// The bytes of a block reduction's partial result, which has kFoldBytes / size_of(dtype)
// independent lanes.
inline constexpr std::size_t kFoldBytes = 64;

constexpr std::int64_t padded(std::int64_t n) { return (n + kPad - 1) / kPad * kPad; }

// out[i] = f(a[i], b[i], c[i]); operands beyond the arity are ignored. `out` may be an
// operand of the same element size.
using ComputeFn = void (*)(void* out, const void* a, const void* b, const void* c, std::size_t n);
// lanes = combine(lanes, values[0..n)): element i goes to lane i % lane_count.
using FoldFn = void (*)(void* lanes, const void* values, std::size_t n);
// lanes[i] = combine(lanes[i], values[r * stride + i] for r in [0, rows)); exactly n columns.
using FoldRowsFn = void (*)(void* lanes, const void* values, std::int64_t stride, std::int64_t rows,
                            std::size_t n);
// out[i] = base[i * stride], and base[i * stride] = values[i]; exactly n elements are touched.
using StridedLoadFn = void (*)(void* out, const void* base, std::int64_t stride, std::size_t n);
using StridedStoreFn = void (*)(void* base, const void* values, std::int64_t stride, std::size_t n);
// out[c * out_stride + r] = in[r * in_stride + c] for r < rows and c < columns; nothing else is
// touched. `cold` says that `in` is probably in no cache.
using TurnFn = void (*)(void* out, std::int64_t out_stride, const void* in, std::int64_t in_stride,
                        std::int64_t rows, std::int64_t columns, bool cold);
// out[i] = base[i * stride + index[i] * value_stride]
using GatherFn = void (*)(void* out, const void* base, std::int64_t stride, const void* index,
                          std::int64_t value_stride, std::size_t n);
// The position of the first element that is best (NaN beats all).
using FindBestFn = std::size_t (*)(const void* values, std::size_t n);
// best[i], position[i] = values[i], at if values[i] beats best[i].
using TrackBestFn = void (*)(void* best, std::int64_t* position, const void* values,
                             std::int64_t at, std::size_t n);
// out[i] = the word of element first + i, converted to the entry's dtype.
using PhiloxFn = void (*)(void* out, std::uint64_t seed, std::uint64_t offset, std::uint64_t first,
                          std::size_t n);
// out[i] = sum over k of a[k * a_step] * b[k * b_step + i]
using ProductFn = void (*)(void* out, const void* a, std::int64_t a_step, const void* b,
                           std::int64_t b_step, std::int64_t depth, std::size_t n);
// out[i] = sum over k of a[k] * b[i * b_stride + k]
using DotsFn = void (*)(void* out, const void* a, const void* b, std::int64_t b_stride,
                        std::int64_t depth, std::size_t n);
// Copies around the cache; `to` is 64-byte aligned and n_bytes is a multiple of 64.
using StreamFn = void (*)(void* to, const void* from, std::size_t n_bytes);
// c[rows, columns] (row stride ldc) (+)= packed a (depth x kGemmRows) * packed b (depth x
// kGemmColumns).
using GemmTileFn = void (*)(void* c, std::int64_t ldc, const void* a, const void* b,
                            std::int64_t depth, std::int64_t rows, std::int64_t columns,
                            bool accumulate);
inline constexpr std::int64_t kGemmRows = 6;
// The columns of a tile fill two vectors of 64 bytes.
template <class T>
inline constexpr std::int64_t kGemmColumns = 128 / static_cast<std::int64_t>(sizeof(T));

// The steps of a chain. v is the value so far; a, b and c are other values.
enum class ChainOp : std::uint8_t {
  Load,  // the first step: v = a
  Neg,
  Abs,
  Square,
  Sqrt,
  Rsqrt,
  Exp,
  Log,
  Tanh,
  Add,
  Sub,      // v - a
  SubFrom,  // a - v
  Mul,
  Div,
  DivInto,  // a / v
  Maximum,
  MaximumOf,  // maximum(a, v)
  Minimum,
  MinimumOf,
  MulAdd,          // v * a + b
  MulSub,          // v * a - b
  MulSubFrom,      // b - v * a
  AddProduct,      // v + a * b
  SubProduct,      // v - a * b
  SubFromProduct,  // a * b - v
  ChooseLt,        // v < c ? a : b
  ChooseLe,        // v <= c ? a : b
  ChooseGt,        // c < v ? a : b
  ChooseGe         // c <= v ? a : b
};
struct ChainStep {
  ChainOp op = ChainOp::Load;
  // The operand is one number for all elements, in lane 0.
  bool a_uniform = false, b_uniform = false, c_uniform = false;
  int a = 0, b = 0, c = -1;  // value numbers; -1: none
};
// Runs a chain over elements [begin, end) of a block; begin is a multiple of kPad. Each group of
// elements is read before it is written.
struct ChainRun {
  const ChainStep* steps = nullptr;
  std::size_t count = 0;
  void* const* values = nullptr;  // values[n]: the block of value n
  std::size_t begin = 0, end = 0;
  void* out = nullptr;  // out[i] = the result at element i; null if it is only folded
  bool stream = false;  // bypass the cache: `out` is 64-byte aligned, `end` a multiple of kPad
  // If not null, the results are combined into these lanes with `fold`; `end` is a multiple of
  // kPad.
  void* lanes = nullptr;
  kernel::ReduceOp fold = kernel::ReduceOp::Sum;
};
using ChainFn = void (*)(const ChainRun& run);

struct SimdTable {
  // Indexed by the dtype of the operands, for `where` of the second and third one.
  ComputeFn op[kernel::kScalarOpCount][kDTypeCount] = {};
  ChainFn chain[kDTypeCount] = {};  // f32, f64
  bool chains_fold = false;         // a vector holds all lanes of a fold, so chains can fold
  ComputeFn cast[kDTypeCount][kDTypeCount] = {};  // from, to
  ComputeFn splat[4] = {};                        // by log2 of the element size: out[i] = a[0]
  FoldFn fold[4][kDTypeCount] = {};               // Sum, Prod, Max, Min
  FoldFn fold_streamed[4][kDTypeCount] = {};      // for values that come from memory
  FoldRowsFn fold_rows[4][kDTypeCount] = {};      // f32, f64
  StridedLoadFn load_strided[4] = {};             // by log2 of the element size
  StridedStoreFn store_strided[4] = {};
  TurnFn turn[4] = {};
  GatherFn gather[4][kDTypeCount] = {};       // by log2 of the element size, dtype of the index
  FindBestFn find_best[2][kDTypeCount] = {};  // max, min
  TrackBestFn track_best[2][kDTypeCount] = {};
  PhiloxFn philox[kDTypeCount] = {};
  StreamFn stream = nullptr;
  ProductFn product[kDTypeCount] = {};  // f32, f64
  DotsFn dots[kDTypeCount] = {};
  GemmTileFn gemm_f32 = nullptr, gemm_f64 = nullptr;
  const char* target = "";

  ComputeFn scalar(kernel::ScalarOp o, DType t) const {
    return op[static_cast<int>(o)][static_cast<int>(t)];
  }
};

// The table for this machine. Exported so that tests can measure single kernels.
VOLTA_BACKEND_API const SimdTable& simd();

// log2 of an element size, the index of tables by size.
constexpr int size_index(DType t) {
  switch (size_of(t)) {
    case 1:
      return 0;
    case 2:
      return 1;
    case 4:
      return 2;
    default:
      return 3;
  }
}
constexpr int type_index(DType t) { return static_cast<int>(t); }

// Each fills a part of the table and is compiled once per instruction set.
void fill_arithmetic(SimdTable& table);
void fill_functions(SimdTable& table);
void fill_angles(SimdTable& table);
void fill_chains(SimdTable& table);
void fill_casts(SimdTable& table);
void fill_movement(SimdTable& table);
void fill_reductions(SimdTable& table);
void fill_products(SimdTable& table);

}  // namespace volta::cpu
