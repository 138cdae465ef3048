// Transcendental functions over blocks, within 2 ulp, and remainders, which are exact. Functions
// without a vector form (erf, pow and fmod of f64, huge quotients) call libm for each lane.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_functions.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/vector/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernel::ScalarOp;

struct Exp {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return exponential(d, x);
  }
};
struct Exp2 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return exponential_of_two(d, x);
  }
};
struct Expm1 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return exponential_m1(d, x);
  }
};
struct Log {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return logarithm(d, x);
  }
};
struct Log2 {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return logarithm_of_two(d, x);
  }
};
struct Log1p {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return logarithm_1p(d, x);
  }
};
struct Tanh {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hyperbolic_tangent(d, x);
  }
};
struct Erf {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return error_function(d, x);
  }
};

template <class T, class F>
void function_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<T> d;
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(F::apply(d, hn::LoadU(d, x + i)), d, z + i);
}

void erf_f64(void* out, const void* a, const void*, const void*, std::size_t n) {
  const double* x = static_cast<const double*>(a);
  double* z = static_cast<double*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = std::erf(x[i]);
}

void pow_f64(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const double* x = static_cast<const double*>(a);
  const double* y = static_cast<const double*>(b);
  double* z = static_cast<double*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = std::pow(x[i], y[i]);
}

// Calls mend(a, b, value) for each lane, to correct lanes for which the vector formula does not
// hold.
template <class DF, class V, class Mend>
V mend_lanes(DF df, V a, V b, V value, const Mend& mend) {
  HWY_ALIGN float left[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float right[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(a, df, left);
  hn::StoreU(b, df, right);
  hn::StoreU(value, df, values);
  for (std::size_t j = 0; j < hn::Lanes(df); ++j) mend(left[j], right[j], values[j]);
  return hn::LoadU(df, values);
}

// e^(y log x) in double if x is positive and finite; other lanes use libm.
void pow_f32(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  float* z = static_cast<float*>(out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const auto base = hn::LoadU(df, x + i), power = hn::LoadU(df, y + i);
    const auto wide = hn::PromoteTo(d, base), exponent = hn::PromoteTo(d, power);
    auto value = narrow(df, exponential(d, hn::Mul(exponent, logarithm(d, wide))));
    const auto top = hn::Set(d, static_cast<double>(std::numeric_limits<float>::max()));
    const auto plain = hn::And(hn::And(hn::Gt(wide, hn::Zero(d)), hn::Le(wide, top)),
                               hn::Le(hn::Abs(exponent), top));
    if (!hn::AllTrue(d, plain)) {
      value = mend_lanes(df, base, power, value, [](float x0, float y0, float& result) {
        if (!(x0 > 0 && std::isfinite(x0) && std::isfinite(y0))) result = std::pow(x0, y0);
      });
    }
    hn::StoreU(value, df, z + i);
  }
}

void fmod_f64(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const double* x = static_cast<const double*>(a);
  const double* y = static_cast<const double*>(b);
  double* z = static_cast<double*>(out);
  for (std::size_t i = 0; i < n; ++i) z[i] = std::fmod(x[i], y[i]);
}

// a - q b in double, exact while the product fits in the mantissa of a double.
void fmod_f32(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  float* z = static_cast<float*>(out);
  for (std::size_t i = 0; i < n; i += lanes) {
    const auto narrow_a = hn::LoadU(df, x + i), narrow_b = hn::LoadU(df, y + i);
    const auto dividend = hn::PromoteTo(d, narrow_a), divisor = hn::PromoteTo(d, narrow_b);
    const auto quotient = hn::Trunc(hn::Div(dividend, divisor));
    auto rest = hn::CopySign(hn::NegMulAdd(quotient, divisor, dividend), dividend);
    // If the quotient was rounded up, the remainder has the wrong sign and lacks one divisor.
    const auto beyond = hn::Lt(hn::Mul(hn::NegMulAdd(quotient, divisor, dividend),
                                       hn::CopySign(hn::Set(d, 1.0), dividend)),
                               hn::Zero(d));
    rest = hn::IfThenElse(beyond, hn::CopySign(hn::Sub(hn::Abs(divisor), hn::Abs(rest)), dividend),
                          rest);
    auto value = narrow(df, rest);
    const auto top = hn::Set(d, static_cast<double>(std::numeric_limits<float>::max()));
    const auto plain =
        hn::And(hn::Lt(hn::Abs(quotient), hn::Set(d, 0x1p29)), hn::Le(hn::Abs(divisor), top));
    if (!hn::AllTrue(d, plain)) {
      value = mend_lanes(df, narrow_a, narrow_b, value, [](float from, float by, float& result) {
        const double ratio = static_cast<double>(from) / by;
        if (!(std::fabs(ratio) < 0x1p29 && std::isfinite(by))) result = std::fmod(from, by);
      });
    }
    hn::StoreU(value, df, z + i);
  }
}

template <class T>
void fill_type(SimdTable& table, DType dtype) {
  const auto set = [&](ScalarOp op, ComputeFn fn) {
    table.op[static_cast<int>(op)][type_index(dtype)] = fn;
  };
  set(ScalarOp::exp, function_loop<T, Exp>);
  set(ScalarOp::expm1, function_loop<T, Expm1>);
  set(ScalarOp::log, function_loop<T, Log>);
  set(ScalarOp::log1p, function_loop<T, Log1p>);
  set(ScalarOp::tanh, function_loop<T, Tanh>);
  set(ScalarOp::exp2, wide_loop<T, Exp2>);
  set(ScalarOp::log2, wide_loop<T, Log2>);
  set(ScalarOp::erf, sizeof(T) == 4 ? function_loop<float, Erf> : erf_f64);
  set(ScalarOp::fmod, sizeof(T) == 4 ? fmod_f32 : fmod_f64);
  set(ScalarOp::pow, sizeof(T) == 4 ? pow_f32 : pow_f64);
}

}  // namespace
void fill_functions_for_target(SimdTable& table) {
  fill_type<float>(table, DType::f32);
  fill_type<double>(table, DType::f64);
}
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_functions_for_target);
void fill_functions(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_functions_for_target)(table); }
}  // namespace volta::cpu
#endif
