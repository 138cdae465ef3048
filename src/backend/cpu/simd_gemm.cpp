// The micro-kernel of the generic matrix product: a tile of kGemmRows x kGemmColumns in registers.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd_gemm.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of the tile against one pair of vectors of columns, from column j of the packed panel.
template <class T>
HWY_INLINE void tile_columns(T* out, const T* a, const T* b, std::int64_t depth, std::int64_t j) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t columns = kGemmColumns<T>;
  auto c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  auto c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  for (std::int64_t k = 0; k < depth; ++k, a += kGemmRows, b += columns) {
    const auto b0 = hn::LoadU(d, b + j), b1 = hn::LoadU(d, b + j + lanes);
    const auto a0 = hn::Set(d, a[0]), a1 = hn::Set(d, a[1]), a2 = hn::Set(d, a[2]);
    c00 = hn::MulAdd(a0, b0, c00);
    c01 = hn::MulAdd(a0, b1, c01);
    c10 = hn::MulAdd(a1, b0, c10);
    c11 = hn::MulAdd(a1, b1, c11);
    c20 = hn::MulAdd(a2, b0, c20);
    c21 = hn::MulAdd(a2, b1, c21);
    const auto a3 = hn::Set(d, a[3]), a4 = hn::Set(d, a[4]), a5 = hn::Set(d, a[5]);
    c30 = hn::MulAdd(a3, b0, c30);
    c31 = hn::MulAdd(a3, b1, c31);
    c40 = hn::MulAdd(a4, b0, c40);
    c41 = hn::MulAdd(a4, b1, c41);
    c50 = hn::MulAdd(a5, b0, c50);
    c51 = hn::MulAdd(a5, b1, c51);
  }
  const auto put = [&](std::int64_t row, auto first, auto second) {
    hn::StoreU(first, d, out + row * columns + j);
    hn::StoreU(second, d, out + row * columns + j + lanes);
  };
  put(0, c00, c01);
  put(1, c10, c11);
  put(2, c20, c21);
  put(3, c30, c31);
  put(4, c40, c41);
  put(5, c50, c51);
}

template <class T>
void gemm_tile(void* c, std::int64_t ldc, const void* a, const void* b, std::int64_t depth, std::int64_t rows,
               std::int64_t columns, bool accumulate) {
  const hn::ScalableTag<T> d;
  alignas(64) T tile[kGemmRows * kGemmColumns<T>];
  const std::int64_t step = 2 * static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < columns; j += step) {
    tile_columns(tile, static_cast<const T*>(a), static_cast<const T*>(b), depth, j);
  }
  T* out = static_cast<T*>(c);
  for (std::int64_t i = 0; i < rows; ++i) {
    T* to = out + i * ldc;
    const T* from = tile + i * kGemmColumns<T>;
    if (accumulate) {
      for (std::int64_t j = 0; j < columns; ++j) to[j] += from[j];
    } else {
      std::copy(from, from + columns, to);
    }
  }
}

}  // namespace
void fill_gemm_for_target(SimdTable& table) {
  table.gemm_f32 = gemm_tile<float>;
  table.gemm_f64 = gemm_tile<double>;
}
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_gemm_for_target);
void fill_gemm(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_gemm_for_target)(table); }
}  // namespace volta::cpu
#endif
