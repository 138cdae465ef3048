// Strided and indexed loads and stores, transposed tiles, splats, and blocks of Philox words.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/vector/simd_table.h"
#include "hwy/cache_control.h"
#include "kernel/philox.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_movement.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class U>
void splat(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<U> d;
  U* z = static_cast<U*>(out);
  const auto value = hn::Set(d, *static_cast<const U*>(a));
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) hn::StoreU(value, d, z + i);
}

template <class U>
void load_strided(void* out, const void* base, std::int64_t stride, std::size_t n) {
  U* z = static_cast<U*>(out);
  const U* x = static_cast<const U*>(base);
  if (stride == 1) {
    std::memcpy(z, x, n * sizeof(U));
    return;
  }
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4, x += 4 * stride) {
    const U x0 = x[0], x1 = x[stride], x2 = x[2 * stride], x3 = x[3 * stride];
    z[i] = x0;
    z[i + 1] = x1;
    z[i + 2] = x2;
    z[i + 3] = x3;
  }
  for (; i < n; ++i, x += stride) z[i] = *x;
}

// The side of the square that turn_square transposes: one row per 128-bit vector; 1 if there is no
// vector form.
template <class U>
inline constexpr std::int64_t kTurn =
    HWY_TARGET == HWY_SCALAR || sizeof(U) < 2 ? 1 : 16 / static_cast<std::int64_t>(sizeof(U));

// Transposes a square of kTurn<U> x kTurn<U> elements in registers.
HWY_INLINE void turn_square(std::uint32_t* out, std::int64_t out_stride, const std::uint32_t* in,
                            std::int64_t in_stride) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint32_t, 4> d;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const auto v0 = hn::LoadU(d, in), v1 = hn::LoadU(d, in + in_stride);
  const auto v2 = hn::LoadU(d, in + 2 * in_stride), v3 = hn::LoadU(d, in + 3 * in_stride);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, v2, v3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, out + out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, out + 2 * out_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, out + 3 * out_stride);
#else
  (void)out_stride;
  (void)in_stride;
  *out = *in;
#endif
}
HWY_INLINE void turn_square(std::uint64_t* out, std::int64_t out_stride, const std::uint64_t* in,
                            std::int64_t in_stride) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint64_t, 2> d;
  const auto v0 = hn::LoadU(d, in), v1 = hn::LoadU(d, in + in_stride);
  hn::StoreU(hn::InterleaveLower(d, v0, v1), d, out);
  hn::StoreU(hn::InterleaveUpper(d, v0, v1), d, out + out_stride);
#else
  (void)out_stride;
  (void)in_stride;
  *out = *in;
#endif
}
HWY_INLINE void turn_square(std::uint16_t* out, std::int64_t out_stride, const std::uint16_t* in,
                            std::int64_t in_stride) {
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<std::uint16_t, 8> d;
  const hn::FixedTag<std::uint32_t, 4> d32;
  const hn::FixedTag<std::uint64_t, 2> d64;
  const auto row = [&](std::int64_t k) HWY_ATTR { return hn::LoadU(d, in + k * in_stride); };
  const auto low = [&](std::int64_t k) HWY_ATTR {
    return hn::BitCast(d32, hn::InterleaveLower(d, row(k), row(k + 1)));
  };
  const auto high = [&](std::int64_t k) HWY_ATTR {
    return hn::BitCast(d32, hn::InterleaveUpper(d, row(k), row(k + 1)));
  };
  // First two columns of four rows each are interleaved, then columns of all eight rows are stored.
  const auto put = [&](std::int64_t column, auto v01, auto v23, auto v45, auto v67) HWY_ATTR {
    const auto low03 = hn::BitCast(d64, hn::InterleaveLower(d32, v01, v23));
    const auto high03 = hn::BitCast(d64, hn::InterleaveUpper(d32, v01, v23));
    const auto low47 = hn::BitCast(d64, hn::InterleaveLower(d32, v45, v67));
    const auto high47 = hn::BitCast(d64, hn::InterleaveUpper(d32, v45, v67));
    std::uint16_t* z = out + column * out_stride;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low03, low47)), d, z);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low03, low47)), d, z + out_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high03, high47)), d, z + 2 * out_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high03, high47)), d, z + 3 * out_stride);
  };
  put(0, low(0), low(2), low(4), low(6));
  put(4, high(0), high(2), high(4), high(6));
#else
  (void)out_stride;
  (void)in_stride;
  *out = *in;
#endif
}
template <class U>
HWY_INLINE void turn_square(U* out, std::int64_t, const U* in, std::int64_t) {
  *out = *in;
}

// The size of the pieces that are transposed at once.
struct Piece {
  std::int64_t rows, columns;
};

#if HWY_MAX_BYTES == 64
// Transposes the 4x4 squares that the four vectors hold in each 128-bit block.
template <class D, class V>
HWY_INLINE void turn_blocks(D d, V& v0, V& v1, V& v2, V& v3) {
  const hn::RepartitionToWide<D> wide;
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, v0, v1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, v2, v3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, v0, v1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, v2, v3));
  v0 = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  v1 = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  v2 = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  v3 = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}

// Transposes 16 rows of 4 columns: four squares, one per block of a vector.
HWY_INLINE void turn_tall(std::uint32_t* out, std::int64_t out_stride, const std::uint32_t* in,
                          std::int64_t in_stride) {
  const hn::FixedTag<std::uint32_t, 4> quarter;
  const hn::FixedTag<std::uint32_t, 8> half;
  const hn::FixedTag<std::uint32_t, 16> d;
  const auto rows = [&](std::int64_t k) HWY_ATTR {
    const std::uint32_t* x = in + k * in_stride;
    const auto low =
        hn::Combine(half, hn::LoadU(quarter, x + 4 * in_stride), hn::LoadU(quarter, x));
    const auto high = hn::Combine(half, hn::LoadU(quarter, x + 12 * in_stride),
                                  hn::LoadU(quarter, x + 8 * in_stride));
    return hn::Combine(d, high, low);
  };
  auto v0 = rows(0), v1 = rows(1), v2 = rows(2), v3 = rows(3);
  turn_blocks(d, v0, v1, v2, v3);
  hn::StoreU(v0, d, out);
  hn::StoreU(v1, d, out + out_stride);
  hn::StoreU(v2, d, out + 2 * out_stride);
  hn::StoreU(v3, d, out + 3 * out_stride);
}

// Transposes 4 rows of 16 columns.
HWY_INLINE void turn_broad(std::uint32_t* out, std::int64_t out_stride, const std::uint32_t* in,
                           std::int64_t in_stride) {
  const hn::FixedTag<std::uint32_t, 4> quarter;
  const hn::FixedTag<std::uint32_t, 8> half;
  const hn::FixedTag<std::uint32_t, 16> d;
  auto v0 = hn::LoadU(d, in), v1 = hn::LoadU(d, in + in_stride);
  auto v2 = hn::LoadU(d, in + 2 * in_stride), v3 = hn::LoadU(d, in + 3 * in_stride);
  turn_blocks(d, v0, v1, v2, v3);
  const auto put = [&](std::int64_t k, auto v) HWY_ATTR {
    std::uint32_t* z = out + k * out_stride;
    const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
    hn::StoreU(hn::LowerHalf(quarter, low), quarter, z);
    hn::StoreU(hn::UpperHalf(quarter, low), quarter, z + 4 * out_stride);
    hn::StoreU(hn::LowerHalf(quarter, high), quarter, z + 8 * out_stride);
    hn::StoreU(hn::UpperHalf(quarter, high), quarter, z + 12 * out_stride);
  };
  put(0, v0);
  put(1, v1);
  put(2, v2);
  put(3, v3);
}

template <class U>
HWY_INLINE Piece piece_of(std::int64_t rows, std::int64_t columns, bool apart) {
  constexpr std::int64_t side = kTurn<U>;
  if (apart) return {side, side};  // fewer rows at a time give the prefetches more time
  if (sizeof(U) == 4 && rows >= 16) return {16, side};
  if (sizeof(U) == 4 && columns >= 16) return {side, 16};
  return {side, side};
}
template <class U>
HWY_INLINE void turn_piece(const Piece& piece, U* out, std::int64_t out_stride, const U* in,
                           std::int64_t in_stride) {
  if constexpr (sizeof(U) == 4) {
    if (piece.rows == 16) return turn_tall(out, out_stride, in, in_stride);
    if (piece.columns == 16) return turn_broad(out, out_stride, in, in_stride);
  }
  turn_square(out, out_stride, in, in_stride);
}
#else
template <class U>
HWY_INLINE Piece piece_of(std::int64_t, std::int64_t, bool) {
  return {kTurn<U>, kTurn<U>};
}
template <class U>
HWY_INLINE void turn_piece(const Piece&, U* out, std::int64_t out_stride, const U* in,
                           std::int64_t in_stride) {
  turn_square(out, out_stride, in, in_stride);
}
#endif

template <class U>
void turn(void* out, std::int64_t out_stride, const void* in, std::int64_t in_stride,
          std::int64_t rows, std::int64_t columns, bool cold) {
  U* z = static_cast<U*>(out);
  const U* x = static_cast<const U*>(in);
  if (rows < kTurn<U> || columns < kTurn<U>) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) z[c * out_stride + r] = x[r * in_stride + c];
    }
    return;
  }
  // Rows are prefetched explicitly: hardware prefetchers do not follow distant rows, or short ones
  // across a page boundary.
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(U));
  const bool apart = cold && (in_stride >= 16 * line || in_stride <= -16 * line);
  const Piece piece = piece_of<U>(rows, columns, apart);
  const std::int64_t early = apart ? 2 * piece.rows : 32 * line / columns;
  // The last pieces overlap the previous ones.
  const auto turn_at = [&](std::int64_t r, std::int64_t c) HWY_ATTR {
    const std::int64_t row = std::min(r, rows - piece.rows);
    const std::int64_t column = std::min(c, columns - piece.columns);
    turn_piece(piece, z + column * out_stride + row, out_stride, x + row * in_stride + column,
               in_stride);
  };
  if (!cold && columns > rows) {  // completes the rows of `out` one after the other
    for (std::int64_t c = 0; c < columns; c += piece.columns) {
      for (std::int64_t r = 0; r < rows; r += piece.rows) turn_at(r, c);
    }
    return;
  }
  for (std::int64_t r = 0; r < rows; r += piece.rows) {
    for (std::int64_t k = r + early; cold && k < std::min(rows, r + early + piece.rows); ++k) {
      for (std::int64_t c = 0; c < columns; c += line) hwy::Prefetch(x + k * in_stride + c);
    }
    for (std::int64_t c = 0; c < columns; c += piece.columns) turn_at(r, c);
  }
}

template <class U>
void store_strided(void* base, const void* values, std::int64_t stride, std::size_t n) {
  const U* x = static_cast<const U*>(values);
  U* z = static_cast<U*>(base);
  if (stride == 1) {
    std::memcpy(z, x, n * sizeof(U));
    return;
  }
  for (std::size_t i = 0; i < n; ++i) z[static_cast<std::int64_t>(i) * stride] = x[i];
}

void stream(void* to, const void* from, std::size_t n_bytes) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::uint32_t* x = static_cast<const std::uint32_t*>(from);
  std::uint32_t* z = static_cast<std::uint32_t*>(to);
  for (std::size_t i = 0; i < n_bytes / 4; i += hn::Lanes(d))
    hn::Stream(hn::LoadU(d, x + i), d, z + i);
}

template <class U, class I>
void gather(void* out, const void* base, std::int64_t stride, const void* index,
            std::int64_t value_stride, std::size_t n) {
  U* z = static_cast<U*>(out);
  const U* x = static_cast<const U*>(base);
  const I* at = static_cast<const I*>(index);
  for (std::size_t i = 0; i < n; ++i) {
    z[i] =
        x[static_cast<std::int64_t>(i) * stride + static_cast<std::int64_t>(at[i]) * value_stride];
  }
}

#if HWY_TARGET != HWY_SCALAR
// The high and low halves of 32 x 32 bit products.
template <class D, class V>
HWY_INLINE void multiply_wide(D d, V a, V b, V& high, V& low) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::BitCast(d, hn::MulEven(a, b));
  const auto odd =
      hn::BitCast(d, hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))),
                                 hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, b)))));
  high = hn::OddEven(odd, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, even))));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd))), even);
}

// Computes whole vectors of Philox blocks until the rest is too short or a counter would carry
// within a vector; returns the number of blocks done.
std::size_t philox_vectors(std::uint32_t* out, std::uint64_t seed, std::uint64_t counter,
                           std::size_t blocks) {
  using D = hn::ScalableTag<std::uint32_t>;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= blocks; i += lanes) {
    const std::uint64_t first = counter + i;
    const std::uint32_t low = static_cast<std::uint32_t>(first);
    if (low > 0xffffffffu - static_cast<std::uint32_t>(lanes)) break;  // a carry within the vector
    auto c0 = hn::Add(hn::Set(d, low), hn::Iota(d, 0));
    auto c1 = hn::Set(d, static_cast<std::uint32_t>(first >> 32));
    auto c2 = hn::Zero(d), c3 = hn::Zero(d);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed),
                  k1 = static_cast<std::uint32_t>(seed >> 32);
    const auto m0 = hn::Set(d, 0xD2511F53u), m1 = hn::Set(d, 0xCD9E8D57u);
    for (int round = 0; round < 10; ++round) {
      auto high0 = c0, low0 = c0, high1 = c2, low1 = c2;
      multiply_wide(d, m0, c0, high0, low0);
      multiply_wide(d, m1, c2, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, out + 4 * i);
  }
  return i;
}
#else
std::size_t philox_vectors(std::uint32_t*, std::uint64_t, std::uint64_t, std::size_t) { return 0; }
#endif

// The words of `blocks` consecutive Philox blocks, four per block, in order.
void philox_words(std::uint32_t* out, std::uint64_t seed, std::uint64_t counter,
                  std::size_t blocks) {
  std::size_t i = philox_vectors(out, seed, counter, blocks);
  for (; i < blocks; ++i) {
    const auto words = kernel::philox(seed, counter + i);
    std::memcpy(out + 4 * i, words.data(), sizeof words);
  }
}

void convert_words(float* out, const std::uint32_t* words, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const auto scale = hn::Set(d, 0x1p-24f);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + i)));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, bits), scale), d, out + i);
  }
}
void convert_words(double* out, const std::uint32_t* words, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<double>(words[i]) * 0x1p-32;
}
void convert_words(std::int64_t* out, const std::uint32_t* words, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = words[i];
}

template <class T>
void philox_block(void* out, std::uint64_t seed, std::uint64_t offset, std::uint64_t first,
                  std::size_t n) {
  alignas(64) std::uint32_t words[kBlock + 4 + kPad];
  const std::size_t skip = first % 4;
  // Signed, because a padded view may begin before element 0.
  const std::int64_t block = static_cast<std::int64_t>(first) >> 2;
  philox_words(words, seed, offset + static_cast<std::uint64_t>(block), (skip + n + 3) / 4);
  convert_words(static_cast<T*>(out), words + skip, n);
}

template <class U>
void fill_size(SimdTable& table, int size) {
  table.splat[size] = splat<U>;
  table.load_strided[size] = load_strided<U>;
  table.store_strided[size] = store_strided<U>;
  table.turn[size] = turn<U>;
  table.gather[size][type_index(DType::i32)] = gather<U, std::int32_t>;
  table.gather[size][type_index(DType::i64)] = gather<U, std::int64_t>;
  table.gather[size][type_index(DType::u8)] = gather<U, std::uint8_t>;
  table.gather[size][type_index(DType::boolean)] = gather<U, std::uint8_t>;
}

void fill(SimdTable& table) {
  fill_size<std::uint8_t>(table, 0);
  fill_size<std::uint16_t>(table, 1);
  fill_size<std::uint32_t>(table, 2);
  fill_size<std::uint64_t>(table, 3);
  table.stream = stream;
  table.philox[type_index(DType::f32)] = philox_block<float>;
  table.philox[type_index(DType::f64)] = philox_block<double>;
  table.philox[type_index(DType::i64)] = philox_block<std::int64_t>;
}

}  // namespace
void fill_movement_for_target(SimdTable& table) { fill(table); }
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_movement_for_target);
void fill_movement(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_movement_for_target)(table); }
}  // namespace volta::cpu
#endif
