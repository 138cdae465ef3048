// Trigonometric and hyperbolic functions over blocks, computed in double, within 4 ulp of f64. Huge
// angles call libm for each lane.
#include <cmath>
#include <cstddef>
#include <numbers>

#include "backend/cpu/vector/simd_table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_angles.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/vector/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernel::ScalarOp;

// sin (shift 0) or cos (shift 1) of moderate angles. x = q pi/2 + r + tail, with pi/2 in three
// parts of 33 bits so that every product with q is exact.
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
  // The quadrant modulo 4, still as a float.
  const V quadrant = hn::Add(q, hn::Set(d, shift));
  const V turn =
      hn::NegMulAdd(hn::Floor(hn::Mul(quadrant, hn::Set(d, 0.25))), hn::Set(d, 4.0), quadrant);
  const auto odd = hn::Or(hn::Eq(turn, one), hn::Eq(turn, hn::Set(d, 3.0)));
  const V value = hn::IfThenElse(odd, cos_r, sin_r);
  return hn::IfThenElse(hn::Ge(turn, hn::Set(d, 2.0)), hn::Neg(value), value);
}

struct Sin {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, sine(d, x, 0.0));
  }
  static double exact(double x) { return std::sin(x); }
};
struct Cos {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return sine(d, x, 1.0);
  }
  static double exact(double x) { return std::cos(x); }
};
struct Tan {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Div(sine(d, x, 0.0), sine(d, x, 1.0)));
  }
  static double exact(double x) { return std::tan(x); }
};

template <class T, class F>
void angle_loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const std::size_t lanes = hn::Lanes(d);
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  HWY_ALIGN double angles[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double values[HWY_MAX_BYTES / sizeof(double)];
  for (std::size_t i = 0; i < n; i += lanes) {
    const auto angle = load_wide(d, x + i);
    auto value = F::apply(d, angle);
    const auto moderate = hn::Le(hn::Abs(angle), hn::Set(d, kLargestAngle));
    if (!hn::AllTrue(d, moderate)) {
      hn::Store(angle, d, angles);
      hn::Store(value, d, values);
      for (std::size_t j = 0; j < lanes; ++j) {
        if (!(std::fabs(angles[j]) <= kLargestAngle)) values[j] = F::exact(angles[j]);
      }
      value = hn::Load(d, values);
    }
    store_wide(d, value, z + i);
  }
}

struct Asin {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hn::Asin(d, x);
  }
};
struct Acos {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hn::Acos(d, x);
  }
};
struct Atan {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    return hn::Atan(d, x);
  }
};

// e^m / 2 near the end of the range, computed as (e^(m/2) / 2) e^(m/2) to avoid overflow.
inline constexpr double kLargeHyperbolic = 700;
template <class D, class V>
HWY_INLINE V half_exponential(D d, V m) {
  const V root = exponential(d, hn::Mul(m, hn::Set(d, 0.5)));
  return hn::Mul(hn::Mul(root, hn::Set(d, 0.5)), root);
}
// sinh|x| = (t + t / (t + 1)) / 2 with t = e^|x| - 1.
struct Sinh {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    const V m = hn::Abs(x), t = exponential_m1(d, m);
    V result = hn::Mul(hn::Set(d, 0.5), hn::Add(t, hn::Div(t, hn::Add(t, hn::Set(d, 1.0)))));
    const auto large = hn::Gt(m, hn::Set(d, kLargeHyperbolic));
    if (!hn::AllFalse(d, large)) result = hn::IfThenElse(large, half_exponential(d, m), result);
    return hn::CopySign(result, x);
  }
};
struct Cosh {
  template <class D, class V>
  static HWY_INLINE V apply(D d, V x) {
    const V m = hn::Abs(x), e = exponential(d, m);
    const V result = hn::Mul(hn::Set(d, 0.5), hn::Add(e, hn::Div(hn::Set(d, 1.0), e)));
    const auto large = hn::Gt(m, hn::Set(d, kLargeHyperbolic));
    if (hn::AllFalse(d, large)) return result;
    return hn::IfThenElse(large, half_exponential(d, m), result);
  }
};

// The angle of the point (x, y): the arctangent of the slope within an octant, then reflected into
// the right octant.
template <class T>
void atan2_loop(void* out, const void* a, const void* b, const void*, std::size_t n) {
  const hn::ScalableTag<double> d;
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const T* ys = static_cast<const T*>(a);
  const T* xs = static_cast<const T*>(b);
  T* z = static_cast<T*>(out);
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto y = load_wide(d, ys + i), x = load_wide(d, xs + i);
    const auto height = hn::Abs(y), width = hn::Abs(x);
    const auto steep = hn::Gt(height, width);
    const auto low = hn::IfThenElse(steep, width, height);
    const auto high = hn::IfThenElse(steep, height, width);
    // 0 / 0 counts as 0, and two infinities as a diagonal.
    auto slope = hn::IfThenElse(hn::Eq(low, high), one, hn::Div(low, high));
    slope = hn::IfThenElse(hn::Eq(high, zero), zero, slope);
    auto angle = hn::Atan(d, slope);
    angle = hn::IfThenElse(steep, hn::Sub(hn::Set(d, std::numbers::pi / 2), angle), angle);
    const auto left = hn::Lt(hn::CopySign(one, x), zero);
    angle = hn::IfThenElse(left, hn::Sub(hn::Set(d, std::numbers::pi), angle), angle);
    angle = hn::IfThenElse(hn::Or(is_nan(x), is_nan(y)), hn::NaN(d), hn::CopySign(angle, y));
    store_wide(d, angle, z + i);
  }
}

template <class T>
void fill_type(SimdTable& table, DType dtype) {
  const auto set = [&](ScalarOp op, ComputeFn fn) {
    table.op[static_cast<int>(op)][type_index(dtype)] = fn;
  };
  set(ScalarOp::sin, angle_loop<T, Sin>);
  set(ScalarOp::cos, angle_loop<T, Cos>);
  set(ScalarOp::tan, angle_loop<T, Tan>);
  set(ScalarOp::asin, wide_loop<T, Asin>);
  set(ScalarOp::acos, wide_loop<T, Acos>);
  set(ScalarOp::atan, wide_loop<T, Atan>);
  set(ScalarOp::sinh, wide_loop<T, Sinh>);
  set(ScalarOp::cosh, wide_loop<T, Cosh>);
  set(ScalarOp::atan2, atan2_loop<T>);
}

}  // namespace
void fill_angles_for_target(SimdTable& table) {
  fill_type<float>(table, DType::f32);
  fill_type<double>(table, DType::f64);
}
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_angles_for_target);
void fill_angles(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_angles_for_target)(table); }
}  // namespace volta::cpu
#endif
