// Transcendental functions over blocks, within 2 ulp. What has no vector form (erf and pow of f64,
// huge angles) calls libm lane by lane.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/simd_functions.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernel::ScalarOp;

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
