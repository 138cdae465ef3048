// Reductions of blocks. The number of lanes in a fold is fixed by the element size, so that sums do
// not depend on the vector width of the machine.
#include <cstdint>
#include <type_traits>

#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_reductions.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Prod {
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct Max {
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Not(hn::Eq(a, a)), hn::Gt(a, b)), a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <class V>
  static HWY_INLINE V vector(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Not(hn::Eq(a, a)), hn::Lt(a, b)), a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return a < b ? a : b;
  }
};

// Folds rows of `width` elements into four vectors of accumulators, four rows at a time, so that
// memory is read in order.
template <class F, class D, class T>
HWY_INLINE void fold_four(D d, T* acc, const T* x, std::size_t rows, std::size_t width) {
  const std::size_t n = hn::Lanes(d);
  auto t0 = hn::LoadU(d, acc), t1 = hn::LoadU(d, acc + n), t2 = hn::LoadU(d, acc + 2 * n),
       t3 = hn::LoadU(d, acc + 3 * n);
  const auto four_rows = [&](const T* at) HWY_ATTR {
    const auto first = F::vector(hn::LoadU(d, at), hn::LoadU(d, at + width));
    const auto second = F::vector(hn::LoadU(d, at + 2 * width), hn::LoadU(d, at + 3 * width));
    return F::vector(first, second);
  };
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* at = x + r * width;
    t0 = F::vector(t0, four_rows(at));
    t1 = F::vector(t1, four_rows(at + n));
    t2 = F::vector(t2, four_rows(at + 2 * n));
    t3 = F::vector(t3, four_rows(at + 3 * n));
  }
  for (; r < rows; ++r) {
    const T* at = x + r * width;
    t0 = F::vector(t0, hn::LoadU(d, at));
    t1 = F::vector(t1, hn::LoadU(d, at + n));
    t2 = F::vector(t2, hn::LoadU(d, at + 2 * n));
    t3 = F::vector(t3, hn::LoadU(d, at + 3 * n));
  }
  hn::StoreU(t0, d, acc);
  hn::StoreU(t1, d, acc + n);
  hn::StoreU(t2, d, acc + 2 * n);
  hn::StoreU(t3, d, acc + 3 * n);
}

// Folds rows into one vector of accumulators.
template <class F, class D, class T>
HWY_INLINE void fold_one(D d, T* acc, const T* x, std::size_t rows, std::size_t width) {
  auto total = hn::LoadU(d, acc);
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* at = x + r * width;
    const auto first = F::vector(hn::LoadU(d, at), hn::LoadU(d, at + width));
    const auto second = F::vector(hn::LoadU(d, at + 2 * width), hn::LoadU(d, at + 3 * width));
    total = F::vector(total, F::vector(first, second));
  }
  for (; r < rows; ++r) total = F::vector(total, hn::LoadU(d, x + r * width));
  hn::StoreU(total, d, acc);
}

// `kStreamed`: sums of values from memory are 1.5 times as fast with several narrow vectors as with
// one wide vector (measured: 28 against 18 GB/s). The wide vector is faster for cached values and
// for more expensive operations. Both add up the lanes in the same order.
template <class T, class F, bool kStreamed>
void fold_float(void* lanes, const void* values, std::size_t n) {
  constexpr std::size_t width = kFoldBytes / sizeof(T);
  const hn::CappedTag<T, width> d;
  const hn::CappedTag<T, width / 4> narrow;
  T* acc = static_cast<T*>(lanes);
  const T* x = static_cast<const T*>(values);
  const std::size_t rows = n / width, rest = n % width;
  if constexpr (kStreamed) {
    for (std::size_t j = 0; j < width; j += 4 * hn::Lanes(narrow))
      fold_four<F>(narrow, acc + j, x + j, rows, width);
  } else {
    for (std::size_t j = 0; j < width; j += hn::Lanes(d))
      fold_one<F>(d, acc + j, x + j, rows, width);
  }
  // The tail leaves the lanes that it does not reach unchanged.
  for (std::size_t j = 0; j < rest; j += hn::Lanes(d)) {
    const auto total = hn::LoadU(d, acc + j);
    const auto reached = hn::FirstN(d, rest - j);
    const auto folded = F::vector(total, hn::LoadU(d, x + rows * width + j));
    hn::StoreU(hn::IfThenElse(reached, folded, total), d, acc + j);
  }
}

// Folds columns [first, n) in whole vectors; returns the first column that is left.
template <class F, class D, class T>
HWY_INLINE std::size_t fold_columns(D d, T* acc, const T* x, std::int64_t stride, bool four,
                                    std::size_t first, std::size_t n) {
  const T *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
  std::size_t i = first;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    auto rows = hn::LoadU(d, x + i);
    if (four) {
      const auto second = F::vector(hn::LoadU(d, x2 + i), hn::LoadU(d, x3 + i));
      rows = F::vector(F::vector(rows, hn::LoadU(d, x1 + i)), second);
    }
    hn::StoreU(F::vector(hn::LoadU(d, acc + i), rows), d, acc + i);
  }
  return i;
}

// Folds four rows at a time: the prefetchers follow that many streams, and the accumulators are
// accessed a quarter as often.
template <class T, class F>
void fold_rows(void* lanes, const void* values, std::int64_t stride, std::int64_t rows,
               std::size_t n) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  T* acc = static_cast<T*>(lanes);
  const T* x = static_cast<const T*>(values);
  for (std::int64_t r = 0; r < rows;) {
    const bool four = r + 4 <= rows;
    const std::size_t done = four ? fold_columns<F>(d, acc, x, stride, true, 0, n)
                                  : fold_columns<F>(d, acc, x, stride, false, 0, n);
    fold_columns<F>(one, acc, x, stride, four, done, n);
    r += four ? 4 : 1;
    x += (four ? 4 : 1) * stride;
  }
}

template <class T, class F>
void fold_integer(void* lanes, const void* values, std::size_t n) {
  constexpr std::size_t width = kFoldBytes / sizeof(T);
  T* acc = static_cast<T*>(lanes);
  const T* x = static_cast<const T*>(values);
  for (std::size_t i = 0; i < n; ++i) acc[i % width] = F::scalar(acc[i % width], x[i]);
}

// Whether a challenger replaces the best so far. NaN beats everything, and the first NaN stays.
template <class T, bool kMax>
HWY_INLINE bool beats(T challenger, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (best != best) return false;
    if (challenger != challenger) return true;
  }
  return kMax ? challenger > best : challenger < best;
}

template <class T, bool kMax>
std::size_t find_best(const void* values, std::size_t n) {
  const T* x = static_cast<const T*>(values);
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (beats<T, kMax>(x[i], x[best])) best = i;
  }
  return best;
}

template <class T, bool kMax>
void track_best(void* best, std::int64_t* position, const void* values, std::int64_t at,
                std::size_t n) {
  T* winner = static_cast<T*>(best);
  const T* x = static_cast<const T*>(values);
  for (std::size_t i = 0; i < n; ++i) {
    const bool better = at == 0 || beats<T, kMax>(x[i], winner[i]);
    winner[i] = better ? x[i] : winner[i];
    position[i] = better ? at : position[i];
  }
}

template <class T>
void fill_type(SimdTable& table, DType dtype) {
  const int t = type_index(dtype);
  if constexpr (std::is_floating_point_v<T>) {
    table.fold[0][t] = fold_float<T, Sum, false>;
    table.fold_streamed[0][t] = fold_float<T, Sum, true>;
    table.fold_rows[0][t] = fold_rows<T, Sum>;
    table.fold[1][t] = table.fold_streamed[1][t] = fold_float<T, Prod, false>;
    table.fold_rows[1][t] = fold_rows<T, Prod>;
    table.fold[2][t] = table.fold_streamed[2][t] = fold_float<T, Max, false>;
    table.fold_rows[2][t] = fold_rows<T, Max>;
    table.fold[3][t] = table.fold_streamed[3][t] = fold_float<T, Min, false>;
    table.fold_rows[3][t] = fold_rows<T, Min>;
  } else {
    table.fold[0][t] = table.fold_streamed[0][t] = fold_integer<T, Sum>;
    table.fold[1][t] = table.fold_streamed[1][t] = fold_integer<T, Prod>;
    table.fold[2][t] = table.fold_streamed[2][t] = fold_integer<T, Max>;
    table.fold[3][t] = table.fold_streamed[3][t] = fold_integer<T, Min>;
  }
  table.find_best[0][t] = find_best<T, true>;
  table.find_best[1][t] = find_best<T, false>;
  table.track_best[0][t] = track_best<T, true>;
  table.track_best[1][t] = track_best<T, false>;
}

void fill(SimdTable& table) {
  fill_type<float>(table, DType::f32);
  fill_type<double>(table, DType::f64);
  fill_type<std::int32_t>(table, DType::i32);
  fill_type<std::int64_t>(table, DType::i64);
  fill_type<std::uint8_t>(table, DType::u8);
  fill_type<std::uint8_t>(table, DType::boolean);
  const int boolean = type_index(DType::boolean);
  table.fold[0][boolean] = table.fold_streamed[0][boolean] =
      fold_integer<std::uint8_t, Max>;  // a sum of bools is "any"
}

}  // namespace
void fill_reductions_for_target(SimdTable& table) { fill(table); }
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_reductions_for_target);
void fill_reductions(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_reductions_for_target)(table); }
}  // namespace volta::cpu
#endif
