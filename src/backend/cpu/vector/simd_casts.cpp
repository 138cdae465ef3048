// Conversions between element types over blocks. Conversions to f16 and bf16 round to nearest even
// everywhere. Floats are truncated to integers; results that do not fit take the machine's
// "indefinite" value.
#include <bit>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_casts.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Storage types as C++ types; bool is a byte of 0 or 1.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t value;
};

HWY_INLINE float widen(Brain x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

HWY_INLINE float widen(Half x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude < 0x400u) {  // zero or subnormal: exact in f32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

HWY_INLINE Brain to_brain(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

HWY_INLINE Half to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // >= 65520
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the last bit of the half with the last bit of the float.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23);
  return {static_cast<std::uint16_t>(sign | rounded >> 13)};
}

template <class T>
HWY_INLINE auto number(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>) {
    return widen(x);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<std::int32_t>(x.value != 0);
  } else {
    return x;
  }
}

// Out-of-range values get the result of the machine's instruction instead of being undefined.
template <class F>
HWY_INLINE std::int64_t truncate(F x) {
  return x >= F(-0x1p63) && x < F(0x1p63) ? static_cast<std::int64_t>(x) : INT64_MIN;
}

template <class To, class From>
HWY_INLINE To convert(From from) {
  const auto x = number(from);
  if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Brain>) {
    return to_brain(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<std::uint8_t>(x != 0)};
  } else if constexpr (std::is_floating_point_v<decltype(x)> && std::is_integral_v<To>) {
    return static_cast<To>(truncate(x));
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void cast_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const From* x = static_cast<const From*>(a);
  To* z = static_cast<To*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = convert<To>(x[i]);
}

// Vector forms of the frequent conversions.
template <class From, class To>
void promote_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<To> d;
  const hn::Rebind<From, decltype(d)> from;
  const From* x = static_cast<const From*>(a);
  To* z = static_cast<To*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(from, x + i)), d, z + i);
  }
}

template <class From, class To>
void demote_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<From> d;
  const hn::Rebind<To, decltype(d)> to;
  const From* x = static_cast<const From*>(a);
  To* z = static_cast<To*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(hn::DemoteTo(to, hn::LoadU(d, x + i)), to, z + i);
}

void i32_to_f32(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::int32_t* x = static_cast<const std::int32_t*>(a);
  float* z = static_cast<float*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(hn::ConvertTo(d, hn::LoadU(di, x + i)), d, z + i);
}

void byte_to_f32(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const std::uint8_t* x = static_cast<const std::uint8_t*>(a);
  float* z = static_cast<float*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, x + i))), d, z + i);
  }
}

void brain_to_f32(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const std::uint16_t* x = static_cast<const std::uint16_t*>(a);
  std::uint32_t* z = static_cast<std::uint32_t*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(d16, x + i))), d, z + i);
  }
}

void f32_to_brain(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const float* x = static_cast<const float*>(a);
  std::uint16_t* z = static_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto value = hn::LoadU(df, x + i);
    const auto bits = hn::BitCast(d, value);
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(d, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), odd));
    const auto quiet = hn::Or(upper, hn::Set(d, 0x40u));
    const auto nan = hn::RebindMask(d, hn::Not(hn::Eq(value, value)));
    hn::StoreU(hn::TruncateTo(d16, hn::IfThenElse(nan, quiet, rounded)), d16, z + i);
  }
}

template <class From>
void fill_from(SimdTable& table, DType from) {
  ComputeFn* row = table.cast[type_index(from)];
  row[type_index(DType::f16)] = cast_loop<From, Half>;
  row[type_index(DType::bf16)] = cast_loop<From, Brain>;
  row[type_index(DType::f32)] = cast_loop<From, float>;
  row[type_index(DType::f64)] = cast_loop<From, double>;
  row[type_index(DType::i32)] = cast_loop<From, std::int32_t>;
  row[type_index(DType::i64)] = cast_loop<From, std::int64_t>;
  row[type_index(DType::u8)] = cast_loop<From, std::uint8_t>;
  row[type_index(DType::boolean)] = cast_loop<From, Bool>;
}

void fill(SimdTable& table) {
  fill_from<Half>(table, DType::f16);
  fill_from<Brain>(table, DType::bf16);
  fill_from<float>(table, DType::f32);
  fill_from<double>(table, DType::f64);
  fill_from<std::int32_t>(table, DType::i32);
  fill_from<std::int64_t>(table, DType::i64);
  fill_from<std::uint8_t>(table, DType::u8);
  fill_from<Bool>(table, DType::boolean);
  const auto set = [&](DType from, DType to, ComputeFn fn) {
    table.cast[type_index(from)][type_index(to)] = fn;
  };
  set(DType::f32, DType::f64, promote_loop<float, double>);
#if HWY_TARGET != HWY_SCALAR  // the scalar conversion saturates infinities
  set(DType::f64, DType::f32, demote_loop<double, float>);
#endif
  set(DType::i32, DType::i64, promote_loop<std::int32_t, std::int64_t>);
  set(DType::i32, DType::f32, i32_to_f32);
  set(DType::u8, DType::f32, byte_to_f32);
  set(DType::boolean, DType::f32, byte_to_f32);
  set(DType::bf16, DType::f32, brain_to_f32);
  set(DType::f32, DType::bf16, f32_to_brain);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  set(DType::f16, DType::f32, promote_loop<hwy::float16_t, float>);
  set(DType::f32, DType::f16, demote_loop<float, hwy::float16_t>);
#endif
}

}  // namespace
void fill_casts_for_target(SimdTable& table) { fill(table); }
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_casts_for_target);
void fill_casts(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_casts_for_target)(table); }
}  // namespace volta::cpu
#endif
