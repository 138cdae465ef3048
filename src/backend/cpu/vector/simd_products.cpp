// Products: the micro-kernel of the generic matrix product (a tile of kGemmRows x kGemmColumns in
// registers), and small products inside kernels, one row of the result at a time.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_products.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Computes the tile's rows for two vectors of columns, starting at column j of the packed panel.
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
void gemm_tile(void* c, std::int64_t ldc, const void* a, const void* b, std::int64_t depth,
               std::int64_t rows, std::int64_t columns, bool accumulate) {
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

// Longer sums are split, so that rounding errors do not accumulate.
constexpr std::int64_t kRun = 256;

// Computes kVectors vectors of the result's row.
template <int kVectors, class D, class T>
HWY_INLINE void product_columns(D d, T* out, const T* a, std::int64_t a_step, const T* b,
                                std::int64_t b_step, std::int64_t depth) {
  const std::size_t lanes = hn::Lanes(d);
  auto t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
  for (std::int64_t first = 0; first < depth; first += kRun) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const std::int64_t end = std::min(depth, first + kRun);
    for (std::int64_t k = first; k < end; ++k) {
      const auto x = hn::Set(d, a[k * a_step]);
      const T* row = b + k * b_step;
      s0 = hn::MulAdd(x, hn::LoadU(d, row), s0);
      if constexpr (kVectors > 1) s1 = hn::MulAdd(x, hn::LoadU(d, row + lanes), s1);
      if constexpr (kVectors > 2) {
        s2 = hn::MulAdd(x, hn::LoadU(d, row + 2 * lanes), s2);
        s3 = hn::MulAdd(x, hn::LoadU(d, row + 3 * lanes), s3);
      }
    }
    t0 = hn::Add(t0, s0);
    t1 = hn::Add(t1, s1);
    t2 = hn::Add(t2, s2);
    t3 = hn::Add(t3, s3);
  }
  hn::StoreU(t0, d, out);
  if constexpr (kVectors > 1) hn::StoreU(t1, d, out + lanes);
  if constexpr (kVectors > 2) {
    hn::StoreU(t2, d, out + 2 * lanes);
    hn::StoreU(t3, d, out + 3 * lanes);
  }
}

template <class T>
void product(void* out, const void* a, std::int64_t a_step, const void* b, std::int64_t b_step,
             std::int64_t depth, std::size_t n) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 4> narrow;
  const hn::CappedTag<T, 1> one;
  const std::size_t lanes = hn::Lanes(d);
  T* z = static_cast<T*>(out);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    product_columns<4>(d, z + i, x, a_step, y + i, b_step, depth);
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    product_columns<2>(d, z + i, x, a_step, y + i, b_step, depth);
  for (; i + lanes <= n; i += lanes) product_columns<1>(d, z + i, x, a_step, y + i, b_step, depth);
  const std::size_t few = hn::Lanes(narrow);
  for (; i + 2 * few <= n; i += 2 * few)
    product_columns<2>(narrow, z + i, x, a_step, y + i, b_step, depth);
  for (; i + few <= n; i += few) product_columns<1>(narrow, z + i, x, a_step, y + i, b_step, depth);
  for (; i < n; ++i) product_columns<1>(one, z + i, x, a_step, y + i, b_step, depth);
}

template <class T>
HWY_INLINE T dot(const T* x, const T* y, std::int64_t depth) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0;
  std::int64_t k = 0;
  for (; k + 2 * lanes <= depth; k += 2 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, x + k), hn::LoadU(d, y + k), s0);
    s1 = hn::MulAdd(hn::LoadU(d, x + k + lanes), hn::LoadU(d, y + k + lanes), s1);
  }
  for (; k + lanes <= depth; k += lanes)
    s0 = hn::MulAdd(hn::LoadU(d, x + k), hn::LoadU(d, y + k), s0);
  T sum = 0;
  for (; k < depth; ++k) sum += x[k] * y[k];
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1))) + sum;
}

template <class T>
void dots(void* out, const void* a, const void* b, std::int64_t b_stride, std::int64_t depth,
          std::size_t n) {
  T* z = static_cast<T*>(out);
  const T* y = static_cast<const T*>(b);
  for (std::size_t i = 0; i < n; ++i, y += b_stride) z[i] = dot(static_cast<const T*>(a), y, depth);
}

}  // namespace
void fill_products_for_target(SimdTable& table) {
  table.product[type_index(DType::f32)] = product<float>;
  table.product[type_index(DType::f64)] = product<double>;
  table.dots[type_index(DType::f32)] = dots<float>;
  table.dots[type_index(DType::f64)] = dots<double>;
  table.gemm_f32 = gemm_tile<float>;
  table.gemm_f64 = gemm_tile<double>;
}
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_products_for_target);
void fill_products(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_products_for_target)(table); }
}  // namespace volta::cpu
#endif
