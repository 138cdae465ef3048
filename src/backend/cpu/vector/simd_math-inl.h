// Transcendental functions of vectors, within 2 ulp. Compiled once per instruction set by the files
// that include this between HWY_BEFORE_NAMESPACE and their own code. exp and log of f64 are
// Highway's with corrections at the ends of the range; the others are written here.
#if defined(VOLTA_CPU_SIMD_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VOLTA_CPU_SIMD_MATH_H
#undef VOLTA_CPU_SIMD_MATH_H
#else
#define VOLTA_CPU_SIMD_MATH_H
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Horner's scheme, highest coefficient first.
template <class D, class V>
HWY_INLINE V polynomial(D, V, V acc) {
  return acc;
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, V acc, double next, Rest... rest) {
  return polynomial(d, x, hn::MulAdd(acc, x, hn::Set(d, static_cast<hn::TFromD<D>>(next))),
                    rest...);
}

template <class D, class V>
HWY_INLINE V constant(D d, V, double value) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

// Highway's != is false for NaN on some targets; this comparison follows IEEE everywhere.
template <class V>
HWY_INLINE auto is_nan(V x) {
  return hn::Not(hn::Eq(x, x));
}

// Splits x = n ln 2 + r and returns r; the low bits of `shifted` hold n. For |x| well below 2^22.
template <class D, class V>
HWY_INLINE V reduce_exponent(D d, V x, V& shifted, V& n) {
  const V magic = hn::Set(d, 0x1.8p23f);
  shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  n = hn::Sub(shifted, magic);
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693145751953125f), x);
  return hn::NegMulAdd(n, hn::Set(d, 1.42860682030941723e-6f), r);
}

// (e^r - 1 - r) / r^2 for |r| < 0.35, interpolated at Chebyshev nodes.
template <class D, class V>
HWY_INLINE V exponential_rest(D d, V r) {
  return polynomial(d, r, hn::Set(d, 0.00139265504f), 0.00836347272, 0.0416665524, 0.166665752,
                    0.5);
}

// e^x in f32 for -87.3 <= x <= 88.7: n is added to the exponent of e^r.
template <class D, class V>
HWY_INLINE V exponential_inside(D d, V x) {
  const hn::RebindToSigned<D> di;
  V shifted = x, n = x;
  const V r = reduce_exponent(d, x, shifted, n);
  const V one = hn::Set(d, 1.0f);
  const V p = hn::MulAdd(hn::MulAdd(exponential_rest(d, r), r, one), r, one);
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// 2^q for an integral q within the exponent range.
HWY_INLINE auto power_of_two(hn::ScalableTag<float> d, hn::Vec<hn::ScalableTag<float>> q) {
  const hn::RebindToSigned<decltype(d)> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, q), hn::Set(di, 127))));
}
HWY_INLINE auto power_of_two(hn::ScalableTag<double> d, hn::Vec<hn::ScalableTag<double>> q) {
  const hn::RebindToSigned<decltype(d)> di;
  // Adding 2^52 + 2^51 leaves the integer in the low bits, without 64-bit conversions.
  const auto shifted = hn::BitCast(di, hn::Add(q, hn::Set(d, 0x1.8p52)));
  return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(shifted, hn::Set(di, std::int64_t{1023}))));
}

// e^x: +inf above the range, NaN for NaN.
template <class D, class V>
HWY_INLINE V exponential(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr bool single = sizeof(T) == 4;
  const V top = constant(d, x, single ? 88.722839 : 709.782712893384);  // the last finite result
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  if constexpr (single) {
    V result = exponential_inside(d, x);
    const auto inside = hn::Le(hn::Abs(x), hn::Set(d, 87.3f));
    if (HWY_UNLIKELY(!hn::AllTrue(d, inside))) {
      // The power of two is applied in two factors, because the result may be subnormal.
      V shifted = x, n = x;
      const V bounded = hn::Min(hn::Max(x, hn::Set(d, -104.0f)), top);
      const V r = reduce_exponent(d, bounded, shifted, n);
      const V p = hn::MulAdd(hn::Mul(r, r), exponential_rest(d, r), r);
      const V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));
      V ends = hn::Mul(hn::Add(p, hn::Set(d, 1.0f)), power_of_two(d, half));
      ends = hn::Mul(ends, power_of_two(d, hn::Sub(n, half)));
      ends = hn::IfThenElse(hn::Gt(x, top), infinity, ends);
      result = hn::IfThenElse(inside, result, hn::IfThenElse(is_nan(x), x, ends));
    }
    return result;
  } else {
    const V result = hn::Exp(d, hn::Min(x, top));
    return hn::IfThenElse(is_nan(x), x, hn::IfThenElse(hn::Gt(x, top), infinity, result));
  }
}

template <class D, class V>
HWY_INLINE V logarithm(D d, V x) {
  using T = hn::TFromD<D>;
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  V result = hn::Log(d, x);
  const auto odd = hn::Or(hn::Not(hn::Gt(x, hn::Zero(d))), hn::Eq(x, infinity));  // NaN included
  if (!hn::AllFalse(d, odd)) {
    result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
    result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
    result = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::NaN(d), result);
    result = hn::IfThenElse(is_nan(x), x, result);
  }
  return result;
}

// log(1 + x) = log(u) + (x - (u - 1)) / u with u = 1 + x rounded; the last term corrects the
// rounding.
template <class D, class V>
HWY_INLINE V logarithm_1p(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const V u = hn::Add(x, one);
  const V lost = hn::Sub(x, hn::Sub(u, one));
  const V result = hn::Add(logarithm(d, u), hn::Div(lost, u));
  // If u is 1, the result is x itself, with the sign of zero. If u is 0 or infinite, it is the
  // logarithm alone.
  const V ends = hn::IfThenElse(hn::Eq(u, one), x, result);
  const auto special = hn::Or(hn::Eq(u, hn::Zero(d)), hn::Eq(u, infinity));
  return hn::IfThenElse(special, logarithm(d, u), ends);
}

// e^x - 1 = 2^q * p + (2^q - 1), where p = e^r - 1 and x = q ln 2 + r.
template <class D, class V>
HWY_INLINE V exponential_m1(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr bool single = sizeof(T) == 4;
  const V low = constant(d, x, single ? -18.0 : -40.0),
          high = constant(d, x, single ? 87.0 : 700.0);
  const V bounded = hn::Min(hn::Max(x, low), high);
  const V q = hn::Round(hn::Mul(bounded, constant(d, x, 1.4426950408889634)));
  V r = hn::NegMulAdd(q, constant(d, x, single ? 0.693145751953125 : 6.93147180369123816490e-01),
                      bounded);
  r = hn::NegMulAdd(q, constant(d, x, single ? 1.42860682030941723e-6 : 1.90821492927058770002e-10),
                    r);
  V p;
  if constexpr (single) {
    p = polynomial(d, r, constant(d, r, 1.0 / 40320), 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                   1.0 / 6, 0.5);
  } else {
    p = polynomial(d, r, constant(d, r, 1.0 / 87178291200), 1.0 / 6227020800, 1.0 / 479001600,
                   1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                   1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5);
  }
  p = hn::MulAdd(hn::Mul(r, r), p, r);
  const V scale = power_of_two(d, q);
  V result = hn::MulAdd(scale, p, hn::Sub(scale, hn::Set(d, T{1})));
  const auto large = hn::Gt(x, high);
  if (!hn::AllFalse(d, large)) result = hn::IfThenElse(large, exponential(d, x), result);
  // Keeps the sign of zero and propagates NaN.
  return hn::IfThenElse(hn::Or(is_nan(x), hn::Eq(x, hn::Zero(d))), x, result);
}

// y / (y + 2) with y = e^2x - 1. For f32 the quotient is corrected for the rounding of y + 2; for
// f64, small x use x + x^3 P(x^2).
template <class D, class V>
HWY_INLINE V tangent_quotient(D d, V magnitude, hwy::SizeTag<4>) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f);
  V shifted = magnitude, n = magnitude;
  const V r = reduce_exponent(d, hn::Add(magnitude, magnitude), shifted, n);
  const V p = hn::MulAdd(hn::Mul(r, r), exponential_rest(d, r), r);
  const V scale =
      hn::BitCast(d, hn::Add(hn::BitCast(di, one), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  const V y = hn::MulAdd(scale, p, hn::Sub(scale, one));
  const V divisor = hn::Add(y, two);
  const V lost = hn::Sub(y, hn::Sub(divisor, two));
  const V inverse = hn::Div(one, divisor);
  const V quotient = hn::Mul(y, inverse);
  const V rest = hn::NegMulAdd(quotient, lost, hn::NegMulAdd(quotient, divisor, y));
  return hn::MulAdd(rest, inverse, quotient);
}
template <class D, class V>
HWY_INLINE V tangent_quotient(D d, V magnitude, hwy::SizeTag<8>) {
  const V z = hn::Mul(magnitude, magnitude);
  const V y = exponential_m1(d, hn::Add(magnitude, magnitude));
  const V quotient = hn::Div(y, hn::Add(y, hn::Set(d, 2.0)));
  const V p = polynomial(d, z, hn::Set(d, 6.3543408148597184e-06), -3.0929125473864671e-05,
                         9.2327497080853704e-05, -0.00023746756598223251, 0.00058962214868720603,
                         -0.0014557676940659455, 0.003592120760870841, -0.0088632350243061063,
                         0.021869488515352347, -0.053968253967810541, 0.13333333333332961,
                         -0.33333333333333331);
  const V small = hn::MulAdd(hn::Mul(z, magnitude), p, magnitude);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.63)), small, quotient);
}
template <class D, class V>
HWY_INLINE V hyperbolic_tangent(D d, V x) {
  using T = hn::TFromD<D>;
  const V magnitude = hn::Min(hn::Abs(x), constant(d, x, sizeof(T) == 4 ? 10.0 : 20.0));
  const V result = tangent_quotient(d, magnitude, hwy::SizeTag<sizeof(T)>());
  return hn::IfThenElse(is_nan(x), x, hn::CopySign(result, x));
}

// erf in f32: x + x P(x^2) below 1, 1 - exp(-Q(|x|)) up to 4, 1 beyond. P and Q interpolate at
// Chebyshev nodes.
template <class D, class V>
HWY_INLINE V error_function(D d, V x) {
  const V magnitude = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));
  const V z = hn::Mul(magnitude, magnitude);
  const V small = polynomial(d, z, hn::Set(d, 7.875875050e-05f), -8.016864283e-04, 5.189087423e-03,
                             -2.685421201e-02, 1.128359472e-01, -3.761262667e-01, 1.283791660e-01);
  const V q = polynomial(d, magnitude, hn::Set(d, -1.637151416e-06f), 4.605804271e-05,
                         -5.968056258e-04, 4.759596294e-03, -2.642113601e-02, 1.100800830e-01,
                         6.318260516e-01, 1.130233435e+00, -3.201380501e-04);
  const V large = hn::Sub(hn::Set(d, 1.0f), exponential_inside(d, hn::Neg(q)));
  const V result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1.0f)),
                                  hn::MulAdd(magnitude, small, magnitude), large);
  return hn::IfThenElse(is_nan(x), x, hn::CopySign(result, x));
}

// 2^x in f64 is 2^n e^(r ln 2), where x = n + r; the power of two is applied in two factors.
template <class D, class V>
HWY_INLINE V exponential_of_two(D d, V x) {
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, -1080.0)), hn::Set(d, 1030.0));
  const V n = hn::Round(bounded);
  const V p = hn::Exp(d, hn::Mul(hn::Sub(bounded, n), hn::Set(d, 0.69314718055994531)));
  const V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5)));
  const V result = hn::Mul(hn::Mul(p, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
  return hn::IfThenElse(is_nan(x), x, result);
}

// log2 in f64 is e + log2(m), where x = 2^e m and m is between the square roots of 1/2 and 2.
template <class D, class V>
HWY_INLINE V logarithm_of_two(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V infinity = hn::Set(d, std::numeric_limits<double>::infinity()), zero = hn::Zero(d);
  const auto tiny = hn::Lt(x, hn::Set(d, std::numeric_limits<double>::min()));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p54)), x);
  const auto bits = hn::BitCast(di, normal);
  const auto root = hn::BitCast(di, hn::Set(d, 0.70710678118654752));
  const auto e = hn::ShiftRight<52>(hn::Sub(bits, root));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(e)));
  const V exponent = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, hn::Set(d, 54.0)));
  V result = hn::MulAdd(hn::Log(d, m), hn::Set(d, 1.4426950408889634), exponent);
  const auto odd = hn::Or(hn::Not(hn::Gt(x, zero)), hn::Eq(x, infinity));  // NaN included
  if (!hn::AllFalse(d, odd)) {
    result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
    result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), result);
    result = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), result);
    result = hn::IfThenElse(is_nan(x), x, result);
  }
  return result;
}

// The scalar target's own conversion saturates infinities.
template <class D, class V>
HWY_INLINE hn::Vec<D> narrow(D d, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, static_cast<float>(hn::GetLane(x)));
#else
  return hn::DemoteTo(d, x);
#endif
}

// Loads and stores for functions written for f64. f32 uses them too, and its results are then
// nearly always correctly rounded.
template <class T, class D>
HWY_INLINE auto load_wide(D d, const T* x) {
  if constexpr (sizeof(T) == 4) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), x));
  } else {
    return hn::LoadU(d, x);
  }
}
template <class T, class D, class V>
HWY_INLINE void store_wide(D d, V value, T* z) {
  if constexpr (sizeof(T) == 4) {
    const hn::Rebind<T, D> df;
    hn::StoreU(narrow(df, value), df, z);
  } else {
    hn::StoreU(value, d, z);
  }
}
template <class T, class F>
void wide_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d))
    store_wide(d, F::apply(d, load_wide(d, x + i)), z + i);
}

}  // namespace
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
