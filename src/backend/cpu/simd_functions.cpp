// Transcendental functions over blocks, within 2 ulp. exp and log are Highway's with the ends of
// the range put right; the others are written here. What has no vector form (erf and pow of f64,
// huge angles) calls libm lane by lane.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd_functions.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernel::ScalarOp;

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

// Highway's != is false for NaN on some targets; this one is IEEE's everywhere.
template <class V>
HWY_INLINE auto is_nan(V x) {
  return hn::Not(hn::Eq(x, x));
}

// e^x; +inf above the range, NaN for NaN.
template <class D, class V>
HWY_INLINE V exponential(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr bool single = sizeof(T) == 4;
  const V top = constant(d, x, single ? 88.722839 : 709.782712893384);  // the last finite result
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const V result = hn::Exp(d, hn::Min(x, top));
  return hn::IfThenElse(is_nan(x), x, hn::IfThenElse(hn::Gt(x, top), infinity, result));
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

// log(1 + x) = log(u) + (x - (u - 1)) / u with u = 1 + x rounded; the last term repairs the
// rounding.
template <class D, class V>
HWY_INLINE V logarithm_1p(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const V u = hn::Add(x, one);
  const V lost = hn::Sub(x, hn::Sub(u, one));
  const V result = hn::Add(logarithm(d, u), hn::Div(lost, u));
  // u == 1: x itself, the sign of zero too. u = 0 or infinite: the logarithm alone.
  const V ends = hn::IfThenElse(hn::Eq(u, one), x, result);
  const auto special = hn::Or(hn::Eq(u, hn::Zero(d)), hn::Eq(u, infinity));
  return hn::IfThenElse(special, logarithm(d, u), ends);
}

// 2^q of an integral q within the exponent range.
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
  // Keeps the sign of zero and passes NaN.
  return hn::IfThenElse(hn::Or(is_nan(x), hn::Eq(x, hn::Zero(d))), x, result);
}

// x + x^3 P(x^2) for small x, where the quotient would lose a bit; y / (y + 2) with y = e^2x - 1
// elsewhere.
template <class D, class V>
HWY_INLINE V hyperbolic_tangent(D d, V x) {
  using T = hn::TFromD<D>;
  const V limit = constant(d, x, sizeof(T) == 4 ? 10.0 : 20.0);
  const V magnitude = hn::Min(hn::Abs(x), limit), z = hn::Mul(magnitude, magnitude);
  const V y = exponential_m1(d, hn::Add(magnitude, magnitude));
  const V quotient = hn::Div(y, hn::Add(y, hn::Set(d, T{2})));
  V p;
  if constexpr (sizeof(T) == 4) {
    p = polynomial(d, z, constant(d, z, 0.0022695016841623541), -0.0083231870582787752,
                   0.021762502907359264, -0.053958461627452201, 0.13333300146188914,
                   -0.33333333149374506);
  } else {
    p = polynomial(d, z, constant(d, z, 6.3543408148597184e-06), -3.0929125473864671e-05,
                   9.2327497080853704e-05, -0.00023746756598223251, 0.00058962214868720603,
                   -0.0014557676940659455, 0.003592120760870841, -0.0088632350243061063,
                   0.021869488515352347, -0.053968253967810541, 0.13333333333332961,
                   -0.33333333333333331);
  }
  const V small = hn::MulAdd(hn::Mul(z, magnitude), p, magnitude);
  const V result = hn::IfThenElse(hn::Lt(magnitude, constant(d, x, 0.63)), small, quotient);
  return hn::IfThenElse(is_nan(x), x, hn::CopySign(result, x));
}

// sin (shift 0) or cos (shift 1) of moderate angles: x = q pi/2 + r + tail, pi/2 in three parts of
// 33 bits so that every product with q is exact.
inline constexpr double kLargestAngle = 1e5;
template <class D, class V>
HWY_INLINE V sine(D d, V x, double shift) {
  const V q = hn::Round(hn::Mul(x, hn::Set(d, 0.63661977236758134308)));
  V r = hn::NegMulAdd(q, hn::Set(d, 1.57079632673412561417e+00), x);
  const V r1 = hn::NegMulAdd(q, hn::Set(d, 6.07710050630396597660e-11), r);
  const V third = hn::Mul(q, hn::Set(d, 2.02226624879595063154e-21));
  r = hn::Sub(r1, third);
  const V tail = hn::Sub(hn::Sub(r1, r), third);
  const V z = hn::Mul(r, r);
  const V s =
      polynomial(d, z, hn::Set(d, 1.0 / 355687428096000), -1.0 / 1307674368000, 1.0 / 6227020800,
                 -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  const V sin_r = hn::Add(r, hn::MulAdd(hn::Mul(z, r), s, tail));
  const V c = polynomial(d, z, hn::Set(d, -1.0 / 6402373705728000), 1.0 / 20922789888000,
                         -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320,
                         -1.0 / 720, 1.0 / 24);
  const V one = hn::Set(d, 1.0), half_z = hn::Mul(z, hn::Set(d, 0.5));
  const V w = hn::Sub(one, half_z);
  const V rest = hn::Sub(hn::Sub(one, w), half_z);
  const V cos_r = hn::Add(w, hn::Add(rest, hn::NegMulAdd(r, tail, hn::Mul(hn::Mul(z, z), c))));
  // Quadrant modulo 4, still as a float.
  const V quadrant = hn::Add(q, hn::Set(d, shift));
  const V turn =
      hn::NegMulAdd(hn::Floor(hn::Mul(quadrant, hn::Set(d, 0.25))), hn::Set(d, 4.0), quadrant);
  const auto odd = hn::Or(hn::Eq(turn, one), hn::Eq(turn, hn::Set(d, 3.0)));
  const V value = hn::IfThenElse(odd, cos_r, sin_r);
  return hn::IfThenElse(hn::Ge(turn, hn::Set(d, 2.0)), hn::Neg(value), value);
}

// erf of f32: x + x P(x^2) below 1, 1 - exp(-Q(|x|)) up to 4, 1 beyond. P and Q interpolate at
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
  const V large = hn::Sub(hn::Set(d, 1.0f), hn::Exp(d, hn::Neg(q)));
  const V result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1.0f)),
                                  hn::MulAdd(magnitude, small, magnitude), large);
  return hn::IfThenElse(is_nan(x), x, hn::CopySign(result, x));
}

struct Exp {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return exponential(d, x);
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

// Both in double: f32 results come out correctly rounded nearly always.
template <class T, bool kCosine>
void angle_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> dt;
  const std::size_t lanes = hn::Lanes(d);
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  HWY_ALIGN double angles[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double values[HWY_MAX_BYTES / sizeof(double)];
  for (std::size_t i = 0; i < n; i += lanes) {
    auto angle = hn::Zero(d);
    if constexpr (sizeof(T) == 4) {
      angle = hn::PromoteTo(d, hn::LoadU(dt, x + i));
    } else {
      angle = hn::LoadU(d, x + i);
    }
    auto value = sine(d, angle, kCosine ? 1.0 : 0.0);
    if constexpr (!kCosine) value = hn::IfThenElse(hn::Eq(angle, hn::Zero(d)), angle, value);
    const auto moderate = hn::Le(hn::Abs(angle), hn::Set(d, kLargestAngle));
    if (!hn::AllTrue(d, moderate)) {
      hn::Store(angle, d, angles);
      hn::Store(value, d, values);
      for (std::size_t j = 0; j < lanes; ++j) {
        if (!(std::fabs(angles[j]) <= kLargestAngle)) {
          values[j] = kCosine ? std::cos(angles[j]) : std::sin(angles[j]);
        }
      }
      value = hn::Load(d, values);
    }
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::DemoteTo(dt, value), dt, z + i);
    } else {
      hn::StoreU(value, d, z + i);
    }
  }
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

// The scalar target's own conversion saturates infinities.
template <class D, class V>
HWY_INLINE hn::Vec<D> narrow(D d, V x) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, static_cast<float>(hn::GetLane(x)));
#else
  return hn::DemoteTo(d, x);
#endif
}

// e^(y log x) in double where x is positive and finite; the rest through libm.
void pow_f32(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  float* z = static_cast<float*>(out);
  HWY_ALIGN float bases[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float powers[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  for (std::size_t i = 0; i < n; i += lanes) {
    const auto base = hn::LoadU(df, x + i), power = hn::LoadU(df, y + i);
    const auto wide = hn::PromoteTo(d, base), exponent = hn::PromoteTo(d, power);
    auto value = narrow(df, exponential(d, hn::Mul(exponent, logarithm(d, wide))));
    const auto top = hn::Set(d, static_cast<double>(std::numeric_limits<float>::max()));
    const auto plain = hn::And(hn::And(hn::Gt(wide, hn::Zero(d)), hn::Le(wide, top)),
                               hn::Le(hn::Abs(exponent), top));
    if (!hn::AllTrue(d, plain)) {
      hn::StoreU(base, df, bases);
      hn::StoreU(power, df, powers);
      hn::StoreU(value, df, values);
      for (std::size_t j = 0; j < lanes; ++j) {
        if (!(bases[j] > 0 && std::isfinite(bases[j]) && std::isfinite(powers[j]))) {
          values[j] = std::pow(bases[j], powers[j]);
        }
      }
      value = hn::LoadU(df, values);
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
  set(ScalarOp::sin, angle_loop<T, false>);
  set(ScalarOp::cos, angle_loop<T, true>);
  set(ScalarOp::erf, sizeof(T) == 4 ? function_loop<float, Erf> : erf_f64);
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
