// Arithmetic, comparisons and selection over blocks, for every instruction set Highway can dispatch
// to.
#include <cstdint>
#include <type_traits>

#include "backend/cpu/vector/processor.h"
#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_arithmetic.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernel::ScalarOp;

template <class T>
using Tag = hn::ScalableTag<T>;

// Plain loops for types and operations without a vector form on every target.
template <class T, class F>
void scalar_loop(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b == nullptr ? a : b);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = F::scalar(x[i], y[i]);
}

template <class T, class F>
void unary_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const Tag<T> d;
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(F::vector(d, hn::LoadU(d, x + i)), d, z + i);
}

template <class T, class F>
void binary_loop(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const Tag<T> d;
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(F::vector(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i);
  }
}

// Highway's != is false for NaN on some targets; this comparison follows IEEE everywhere.
template <class V>
HWY_INLINE auto differ(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}

// Stores a mask as bytes of 0 or 1.
template <class D, class M>
HWY_INLINE void store_mask(D, M mask, std::uint8_t* out) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, mask), hn::Set(du, U{1}));
  const hn::Rebind<std::uint8_t, D> d8;
  if constexpr (sizeof(T) == 1) {
    hn::StoreU(ones, d8, out);
  } else {
    hn::StoreU(hn::TruncateTo(d8, ones), d8, out);
  }
}

// Loads a mask from bytes; nonzero means true.
template <class D>
HWY_INLINE auto load_mask(D d, const std::uint8_t* in) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto bytes = hn::LoadU(d8, in);
  if constexpr (sizeof(T) == 8) {
    const hn::Rebind<std::uint32_t, D> d32;
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, hn::PromoteTo(d32, bytes)), hn::Zero(du)));
  } else if constexpr (sizeof(T) == 4) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, bytes), hn::Zero(du)));
  } else {
    return hn::RebindMask(d, hn::Ne(bytes, hn::Zero(d8)));
  }
}

template <class T, class F>
void compare_loop(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const Tag<T> d;
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b == nullptr ? a : b);
  std::uint8_t* z = static_cast<std::uint8_t*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    store_mask(d, F::mask(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), z + i);
  }
}

template <class T>
void where_loop(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  const Tag<T> d;
  const std::uint8_t* condition = static_cast<const std::uint8_t*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(
        hn::IfThenElse(load_mask(d, condition + i), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d,
        z + i);
  }
}

template <class T>
void where_scalar(void* out, const void* a, const void* b, const void* c, std::size_t n) {
  const std::uint8_t* condition = static_cast<const std::uint8_t*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = condition[i] != 0 ? x[i] : y[i];
}

// Integer arithmetic wraps around.
template <class T>
using Wrap = std::make_unsigned_t<T>;

struct Neg {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a) {
    return hn::Neg(a);
  }
  template <class T>
  static T scalar(T a, T) {
    return static_cast<T>(0 - static_cast<Wrap<T>>(a));
  }
};
struct Abs {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a) {
    return hn::Abs(a);
  }
  template <class T>
  static T scalar(T a, T) {
    return a < 0 ? static_cast<T>(0 - static_cast<Wrap<T>>(a)) : a;
  }
};
struct Sign {
  template <class D, class V>
  static HWY_INLINE V vector(D d, V a) {
    using T = hn::TFromD<D>;
    const V zero = hn::Zero(d), one = hn::Set(d, T{1});
    return hn::Sub(hn::IfThenElseZero(hn::Gt(a, zero), one),
                   hn::IfThenElseZero(hn::Lt(a, zero), one));
  }
  template <class T>
  static T scalar(T a, T) {
    return static_cast<T>((a > 0) - (a < 0));
  }
};
struct Identity {
  template <class T>
  static T scalar(T a, T) {
    return a;
  }
};
struct Sqrt {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a) {
    return hn::Sqrt(a);
  }
};
struct Rsqrt {
  template <class D, class V>
  static HWY_INLINE V vector(D d, V a) {
    return hn::Div(hn::Set(d, hn::TFromD<D>{1}), hn::Sqrt(a));
  }
};
struct Floor {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a) {
    return hn::CopySign(hn::Floor(a), a);  // some targets lose the sign of -0
  }
};
struct Round {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a) {
    return hn::CopySign(hn::Round(a), a);
  }
};
struct Add {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
  }
};
struct Sub {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    return hn::Sub(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) - static_cast<Wrap<T>>(b));
  }
};
struct Mul {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
  }
};
struct Div {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    return hn::Div(a, b);
  }
};
// Integer division: dividing by zero gives zero, and nothing traps.
struct Quotient {
  template <class T>
  static T scalar(T a, T b) {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Neg::scalar(a, b);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  static T scalar(T a, T b) {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    return static_cast<T>(a % b);
  }
};
// Integer power wraps like multiplication; with a negative exponent the result is 0 unless the base
// is 1 or -1.
struct Power {
  template <class T>
  static T scalar(T base, T exponent) {
    if (exponent < 0) {
      const bool unit = base == 1 || base == static_cast<T>(-1);
      return unit ? ((exponent & 1) != 0 ? base : T{1}) : T{0};
    }
    std::uint64_t power = 1, factor = static_cast<std::uint64_t>(base);
    for (auto left = static_cast<std::uint64_t>(exponent); left != 0; left >>= 1) {
      if ((left & 1) != 0) power *= factor;
      factor *= factor;
    }
    return static_cast<T>(power);
  }
};
// (a != a || a > b) ? a : b, so that a NaN on either side is the result.
struct Maximum {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(differ(a, a), hn::Gt(a, b)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
  template <class T>
  static T scalar(T a, T b) {
    return a > b ? a : b;
  }
};
struct Minimum {
  template <class D, class V>
  static HWY_INLINE V vector(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(differ(a, a), hn::Lt(a, b)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
  template <class T>
  static T scalar(T a, T b) {
    return a < b ? a : b;
  }
};
struct LogicalNot {
  template <class D, class V>
  static HWY_INLINE auto mask(D d, V a, V) {
    return hn::Eq(a, hn::Zero(d));
  }
};
struct Lt {
  template <class D, class V>
  static HWY_INLINE auto mask(D, V a, V b) {
    return hn::Lt(a, b);
  }
};
struct Le {
  template <class D, class V>
  static HWY_INLINE auto mask(D, V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Le(a, b);
    } else {
      return hn::Not(hn::Gt(a, b));
    }
  }
};
struct Eq {
  template <class D, class V>
  static HWY_INLINE auto mask(D, V a, V b) {
    return hn::Eq(a, b);
  }
};
struct Ne {
  template <class D, class V>
  static HWY_INLINE auto mask(D, V a, V b) {
    return differ(a, b);
  }
};
struct LogicalAnd {
  template <class D, class V>
  static HWY_INLINE auto mask(D d, V a, V b) {
    const V zero = hn::Zero(d);
    return hn::And(differ(a, zero), differ(b, zero));
  }
};
struct LogicalOr {
  template <class D, class V>
  static HWY_INLINE auto mask(D d, V a, V b) {
    const V zero = hn::Zero(d);
    return hn::Or(differ(a, zero), differ(b, zero));
  }
};
struct LogicalXor {
  template <class D, class V>
  static HWY_INLINE auto mask(D d, V a, V b) {
    const V zero = hn::Zero(d);
    return hn::Xor(differ(a, zero), differ(b, zero));
  }
};
// Arithmetic on bool is done on 0 and 1 and converted back: a + b is "or", a - b is "differ".
struct BoolOr {
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>((a | b) != 0);
  }
};
struct BoolDiffer {
  template <class T>
  static T scalar(T a, T b) {
    return static_cast<T>((a != 0) != (b != 0));
  }
};

template <class T>
void fill_shared(SimdTable& table, DType dtype) {
  const auto set = [&](ScalarOp op, ComputeFn fn) {
    table.op[static_cast<int>(op)][type_index(dtype)] = fn;
  };
  set(ScalarOp::logical_not, compare_loop<T, LogicalNot>);
  set(ScalarOp::lt, compare_loop<T, Lt>);
  set(ScalarOp::le, compare_loop<T, Le>);
  set(ScalarOp::eq, compare_loop<T, Eq>);
  set(ScalarOp::ne, compare_loop<T, Ne>);
  set(ScalarOp::logical_and, compare_loop<T, LogicalAnd>);
  set(ScalarOp::logical_or, compare_loop<T, LogicalOr>);
  set(ScalarOp::logical_xor, compare_loop<T, LogicalXor>);
  set(ScalarOp::where, where_loop<T>);
}

template <class T>
void fill_float(SimdTable& table, DType dtype) {
  const auto set = [&](ScalarOp op, ComputeFn fn) {
    table.op[static_cast<int>(op)][type_index(dtype)] = fn;
  };
  fill_shared<T>(table, dtype);
  set(ScalarOp::neg, unary_loop<T, Neg>);
  set(ScalarOp::abs, unary_loop<T, Abs>);
  set(ScalarOp::sign, unary_loop<T, Sign>);
  set(ScalarOp::sqrt, unary_loop<T, Sqrt>);
  set(ScalarOp::rsqrt, unary_loop<T, Rsqrt>);
  set(ScalarOp::floor, unary_loop<T, Floor>);
  set(ScalarOp::round, unary_loop<T, Round>);
  set(ScalarOp::add, binary_loop<T, Add>);
  set(ScalarOp::sub, binary_loop<T, Sub>);
  set(ScalarOp::mul, binary_loop<T, Mul>);
  set(ScalarOp::div, binary_loop<T, Div>);
  set(ScalarOp::maximum, binary_loop<T, Maximum>);
  set(ScalarOp::minimum, binary_loop<T, Minimum>);
}

template <class T>
void fill_integer(SimdTable& table, DType dtype) {
  const auto set = [&](ScalarOp op, ComputeFn fn) {
    table.op[static_cast<int>(op)][type_index(dtype)] = fn;
  };
  fill_shared<T>(table, dtype);
  set(ScalarOp::neg, scalar_loop<T, Neg>);
  set(ScalarOp::sign, scalar_loop<T, Sign>);
  set(ScalarOp::floor, scalar_loop<T, Identity>);
  set(ScalarOp::round, scalar_loop<T, Identity>);
  set(ScalarOp::add, binary_loop<T, Add>);
  set(ScalarOp::sub, binary_loop<T, Sub>);
  set(ScalarOp::mul, scalar_loop<T, Mul>);
  set(ScalarOp::div, scalar_loop<T, Quotient>);
  set(ScalarOp::fmod, scalar_loop<T, Remainder>);
  set(ScalarOp::pow, scalar_loop<T, Power>);
  set(ScalarOp::maximum, scalar_loop<T, Maximum>);
  set(ScalarOp::minimum, scalar_loop<T, Minimum>);
  if constexpr (std::is_signed_v<T>) {
    set(ScalarOp::abs, scalar_loop<T, Abs>);
  } else {
    set(ScalarOp::abs, scalar_loop<T, Identity>);
  }
}

void fill(SimdTable& table) {
  fill_float<float>(table, DType::f32);
  fill_float<double>(table, DType::f64);
  fill_integer<std::int32_t>(table, DType::i32);
  fill_integer<std::int64_t>(table, DType::i64);
  fill_integer<std::uint8_t>(table, DType::u8);
  fill_integer<std::uint8_t>(table, DType::boolean);
  table.op[static_cast<int>(ScalarOp::add)][type_index(DType::boolean)] =
      scalar_loop<std::uint8_t, BoolOr>;
  table.op[static_cast<int>(ScalarOp::sub)][type_index(DType::boolean)] =
      scalar_loop<std::uint8_t, BoolDiffer>;
  table.op[static_cast<int>(ScalarOp::neg)][type_index(DType::boolean)] =
      scalar_loop<std::uint8_t, Identity>;
  // Selecting between values of storage types needs no arithmetic.
  for (const DType half : {DType::f16, DType::bf16}) {
    table.op[static_cast<int>(ScalarOp::where)][type_index(half)] = where_scalar<std::uint16_t>;
  }
  table.target = hwy::TargetName(HWY_TARGET);
}

}  // namespace
void fill_arithmetic_for_target(SimdTable& table) { fill(table); }
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_arithmetic_for_target);
void fill_arithmetic(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_arithmetic_for_target)(table); }

const SimdTable& simd() {
  static const SimdTable table = [] {
    limit_vector_instructions();
    SimdTable filled;
    fill_arithmetic(filled);
    fill_functions(filled);
    fill_angles(filled);
    fill_chains(filled);
    fill_casts(filled);
    fill_movement(filled);
    fill_reductions(filled);
    fill_products(filled);
    return filled;
  }();
  return table;
}
}  // namespace volta::cpu
#endif
