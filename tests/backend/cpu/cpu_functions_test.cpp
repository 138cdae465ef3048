// Errors of the CPU's vector functions in units of the last place, against long double, over the
// whole range of the type: every exponent with both signs, random mantissas, and consecutive
// numbers around the points where a formula changes. The bounds are those of docs/internals/cpu.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/vector/simd_table.h"
#include "kernel/philox.h"

namespace volta {
namespace {

using kernel::ScalarOp;
using Wide = long double;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
Bits<T> random_bits(std::uint64_t n) {
  const auto words = kernel::philox(7, n);
  if constexpr (sizeof(T) == 4) {
    return words[0];
  } else {
    return static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  }
}

// `count` random mantissas for every exponent, including denormal numbers, with both signs.
template <class T>
std::vector<T> all_exponents(int count) {
  constexpr int digits = std::numeric_limits<T>::digits - 1;
  constexpr Bits<T> exponents = sizeof(T) == 4 ? 255 : 2047;
  constexpr Bits<T> mantissas = (Bits<T>{1} << digits) - 1;
  std::vector<T> values;
  for (Bits<T> exponent = 0; exponent < exponents; ++exponent) {
    for (int k = 0; k < count; ++k) {
      Bits<T> mantissa = random_bits<T>(values.size()) & mantissas;
      if (k < 2) mantissa = k == 0 ? 0 : mantissas;
      const T value = std::bit_cast<T>(exponent << digits | mantissa);
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

// `count` consecutive numbers on each side of a point and of its negative.
template <class T>
void add_around(std::vector<T>& values, double point, int count) {
  T up = static_cast<T>(point), down = up;
  for (int k = 0; k < count; ++k) {
    for (const T value : {up, down}) {
      values.push_back(value);
      values.push_back(-value);
    }
    up = std::nextafter(up, std::numeric_limits<T>::infinity());
    down = std::nextafter(down, -std::numeric_limits<T>::infinity());
  }
}

template <class T>
void add_evenly(std::vector<T>& values, double low, double high, int count) {
  for (int k = 0; k < count; ++k)
    values.push_back(static_cast<T>(low + (high - low) * (k + 0.37) / count));
}

// The error of one result. It is infinite if only one of the two is finite, or if zeros or
// infinities differ in sign.
template <class T>
double ulps(T got, Wide want) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  const T rounded = static_cast<T>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : wrong;
  if (std::isinf(rounded)) {
    // The largest finite number is at most half a unit away from numbers that round to infinity.
    const bool close = std::fabs(got) == std::numeric_limits<T>::max() &&
                       std::fabs(want) < std::ldexp(Wide{1}, std::numeric_limits<T>::max_exponent) *
                                             (1 + std::numeric_limits<T>::epsilon());
    return got == rounded || (close && std::signbit(got) == std::signbit(want)) ? 0 : wrong;
  }
  if (!std::isfinite(got)) {
    return std::isinf(got) && std::fabs(rounded) == std::numeric_limits<T>::max() ? 1 : wrong;
  }
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : wrong;
  const T size = std::fabs(rounded);
  const Wide next = size == std::numeric_limits<T>::max()
                        ? std::ldexp(Wide{1}, std::numeric_limits<T>::max_exponent)
                        : static_cast<Wide>(std::nextafter(size, std::numeric_limits<T>::max()));
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - want) / (next - size));
}

struct Worst {
  double error = 0;
  double at = 0, and_at = 0;
};

template <class T>
Worst worst_of(ScalarOp op, Wide (*exact)(Wide), const std::vector<T>& values) {
  const cpu::ComputeFn fn = cpu::simd().scalar(op, dtype_of<T>::value);
  Worst worst;
  for (std::size_t first = 0; first < values.size(); first += 128) {
    T in[128] = {}, out[128];
    const std::size_t n = std::min<std::size_t>(128, values.size() - first);
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), n, in);
    fn(out, in, in, in, n);
    for (std::size_t k = 0; k < n; ++k) {
      const double error = ulps(out[k], exact(in[k]));
      if (error > worst.error) worst = {error, in[k], 0};
    }
  }
  return worst;
}

struct Function {
  ScalarOp op;
  Wide (*exact)(Wide);
  double bound_f32, bound_f64;
  std::vector<double> points;                        // where formulas or results change
  std::vector<std::pair<double, double>> stretches;  // where most arguments lie
};

Wide inverse_root(Wide x) { return 1 / std::sqrt(x); }

const std::vector<Function>& functions() {
  constexpr double ln2 = 0.69314718055994531, half_pi = 1.5707963267948966;
  static const std::vector<Function> all = {
      {ScalarOp::exp,
       expl,
       1,
       1.5,
       {ln2 / 2, 3 * ln2 / 2, 87.3, 88.3763, 88.7228, 103.97, 104, 709.7827, 708.4, 745.13},
       {{-1, 1}, {-104, 89}, {-746, 710}}},
      {ScalarOp::expm1,
       expm1l,
       2,
       2,
       {ln2 / 2, 17.3, 18, 37, 40, 87, 88.7228, 700, 709.7827},
       {{-1, 1}, {-20, 89}, {-40, 710}}},
      {ScalarOp::exp2,
       exp2l,
       1,
       2,
       {0.5, 1.5, 126, 127.99999, 128, 149, 150, 1022, 1023.9999, 1024, 1074, 1075, 1080},
       {{-1, 1}, {-150, 129}, {-1076, 1025}}},
      {ScalarOp::log2, log2l, 1, 2, {1, 0.70710678, 1.41421356, 2, 0.5, 4}, {{0.5, 2}, {0, 100}}},
      {ScalarOp::log, logl, 1.5, 1.5, {1, 0.70710678, 1.41421356, 2}, {{0.5, 2}, {0, 100}}},
      {ScalarOp::log1p,
       log1pl,
       2,
       2,
       {1, 0.5, 1e-8, 1e-16, 0.29289321},
       {{-0.999, 1}, {-0.1, 0.1}, {0, 100}}},
      {ScalarOp::sqrt, sqrtl, 0.5, 0.5, {1, 2}, {{0, 4}}},
      {ScalarOp::rsqrt, inverse_root, 1.5, 1.5, {1, 2}, {{0, 4}}},
      {ScalarOp::tanh,
       tanhl,
       2,
       2,
       {ln2 / 4, 3 * ln2 / 4, 0.205, 0.63, 8.3, 9.01, 10, 18.7, 20},
       {{-1, 1}, {-10, 10}, {-20, 20}}},
      {ScalarOp::erf, erfl, 2, 1, {0.84375, 1, 3.92, 4, 5.9}, {{-1, 1}, {-4.5, 4.5}}},
      {ScalarOp::sin,
       sinl,
       1,
       1.5,
       {half_pi, 2 * half_pi, 4 * half_pi, 201 * half_pi, 1e5},
       {{-7, 7}, {-1e3, 1e3}, {-2e5, 2e5}}},
      {ScalarOp::cos,
       cosl,
       1,
       1.5,
       {half_pi, 2 * half_pi, 3 * half_pi, 201 * half_pi, 1e5},
       {{-7, 7}, {-1e3, 1e3}, {-2e5, 2e5}}},
      {ScalarOp::tan,
       tanl,
       1,
       4,
       {half_pi / 2, half_pi, 2 * half_pi, 3 * half_pi, 201 * half_pi, 1e5},
       {{-7, 7}, {-1e3, 1e3}, {-2e5, 2e5}}},
      {ScalarOp::asin, asinl, 1, 3, {0.5, 1, 0.99}, {{-1, 1}, {0.99, 1}}},
      {ScalarOp::acos, acosl, 1, 3, {0.5, 1, 0.99}, {{-1, 1}, {0.99, 1}, {-1, -0.99}}},
      {ScalarOp::atan, atanl, 1, 3, {1, 0.5, 2}, {{-1, 1}, {-10, 10}, {-1e4, 1e4}}},
      {ScalarOp::sinh,
       sinhl,
       1,
       4,
       {ln2 / 2, 89.4159, 40, 700, 709.7827, 710.4758},
       {{-1, 1}, {-90, 90}, {-711, 711}}},
      {ScalarOp::cosh,
       coshl,
       1,
       4,
       {ln2 / 2, 89.4159, 700, 709.7827, 710.4758},
       {{-1, 1}, {-90, 90}, {-711, 711}}},
  };
  return all;
}

template <class T>
void check_functions(int mantissas) {
  // Without fused multiply-add, a product and a sum each cost up to a quarter of the bound.
  const bool has_fma = std::string(cpu::simd().target).find("SSE") == std::string::npos;
  const double without_fma = has_fma ? 1 : 1.25;
  const std::vector<T> everywhere = all_exponents<T>(mantissas);
  for (const Function& function : functions()) {
    std::vector<T> values = everywhere;
    for (const double point : function.points) add_around(values, point, 1000);
    for (const auto& [low, high] : function.stretches) add_evenly(values, low, high, 20000);
    const Worst worst = worst_of(function.op, function.exact, values);
    const double bound = (sizeof(T) == 4 ? function.bound_f32 : function.bound_f64) * without_fma;
    EXPECT_LE(worst.error, bound) << kernel::info(function.op).name << " at " << worst.at;
    testing::Test::RecordProperty(std::string(kernel::info(function.op).name) + "_ulp",
                                  std::to_string(worst.error));
  }
}

TEST(CpuFunctions, ErrorsOverTheWholeRangeF32) { check_functions<float>(300); }
TEST(CpuFunctions, ErrorsOverTheWholeRangeF64) { check_functions<double>(30); }

// The formula 1 / (1 + e^-x) as the planner writes it, in one chain.
TEST(CpuFunctions, ErrorsOfSigmoid) {
  using cpu::ChainOp;
  std::vector<float> values = all_exponents<float>(300);
  add_evenly(values, -104, 20, 200000);
  const float one = 1;
  const cpu::ChainStep steps[] = {{.op = ChainOp::Load},
                                  {.op = ChainOp::Neg},
                                  {.op = ChainOp::Exp},
                                  {.op = ChainOp::Add, .a_uniform = true, .a = 1},
                                  {.op = ChainOp::DivInto, .a_uniform = true, .a = 1}};
  Worst worst;
  for (std::size_t first = 0; first + 128 <= values.size(); first += 128) {
    float out[128];
    void* operands[] = {values.data() + first, const_cast<float*>(&one)};
    cpu::simd().chain[cpu::type_index(DType::f32)](
        {.steps = steps, .count = 5, .values = operands, .end = 128, .out = out});
    for (std::size_t k = 0; k < 128; ++k) {
      const Wide x = values[first + k];
      if (x < -87) continue;  // e^-x is near the end of the range; the quotient is denormal or 0
      const double error = ulps(out[k], 1 / (1 + std::exp(-x)));
      if (error > worst.error) worst = {error, values[first + k], 0};
    }
  }
  EXPECT_LE(worst.error, 3.0) << worst.at;
  RecordProperty("sigmoid_ulp", std::to_string(worst.error));
}

// Bases and exponents of all sizes whose power is mostly a normal number, and integral exponents of
// negative bases.
template <class T>
Worst worst_power(int count) {
  const cpu::ComputeFn fn = cpu::simd().scalar(ScalarOp::pow, dtype_of<T>::value);
  constexpr double range = std::numeric_limits<T>::max_exponent;
  Worst worst;
  for (int first = 0; first < count; first += 128) {
    T x[128], y[128], z[128];
    for (int k = 0; k < 128; ++k) {
      const auto words =
          kernel::philox(11, static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(k));
      const double u = words[0] * 0x1p-32, v = words[1] * 0x1p-32, w = words[2] * 0x1p-32;
      const double exponent = k % 3 == 0 ? 2 * u - 1 : (2 * u - 1) * range;
      x[k] = static_cast<T>(std::exp2(exponent) * (1 + w / 2));
      y[k] = static_cast<T>((2 * v - 1) * range / std::max(std::fabs(exponent), 0.01));
      if (k % 8 == 0) {
        x[k] = -x[k];
        y[k] = std::round(y[k]);
      }
    }
    fn(z, x, y, y, 128);
    for (int k = 0; k < 128; ++k) {
      const double error = ulps(z[k], powl(x[k], y[k]));
      if (error > worst.error) worst = {error, x[k], y[k]};
    }
  }
  return worst;
}

// Pairs of all sizes and signs, including zeros and infinities, against a function of two long
// doubles.
template <class T>
Worst worst_of_pairs(ScalarOp op, Wide (*exact)(Wide, Wide), int count) {
  const cpu::ComputeFn fn = cpu::simd().scalar(op, dtype_of<T>::value);
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T special[] = {0,
                       -T{0},
                       infinity,
                       -infinity,
                       1,
                       -1,
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::denorm_min()};
  Worst worst;
  for (int first = 0; first < count; first += 128) {
    T x[128], y[128], z[128];
    for (int k = 0; k < 128; ++k) {
      const auto words =
          kernel::philox(13, static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(k));
      const auto draw = [&](std::uint32_t word, std::uint32_t size) {
        const double range = size % 3 == 0 ? std::numeric_limits<T>::max_exponent - 1 : 12;
        const double value = std::exp2(((size >> 8) * 0x1p-24 * 2 - 1) * range);
        return static_cast<T>((word & 1) != 0 ? value : -value);
      };
      x[k] = k % 16 == 0 ? special[words[0] % 9] : draw(words[0], words[1]);
      y[k] = k % 16 == 1 || k % 32 == 0 ? special[words[2] % 9] : draw(words[2], words[3]);
      if (k % 16 == 2) y[k] = x[k] / 3;
    }
    fn(z, x, y, y, 128);
    for (int k = 0; k < 128; ++k) {
      const double error = ulps(z[k], exact(x[k], y[k]));
      if (error > worst.error) worst = {error, x[k], y[k]};
    }
  }
  return worst;
}

TEST(CpuFunctions, ErrorsOfAnglesOfPoints) {
  const Worst single = worst_of_pairs<float>(ScalarOp::atan2, atan2l, 1 << 17),
              both = worst_of_pairs<double>(ScalarOp::atan2, atan2l, 1 << 17);
  EXPECT_LE(single.error, 1.0) << single.at << ", " << single.and_at;
  EXPECT_LE(both.error, 4.0) << both.at << ", " << both.and_at;
  RecordProperty("atan2_ulp", std::to_string(single.error) + " " + std::to_string(both.error));
}

TEST(CpuFunctions, RemaindersAreExact) {
  const Worst single = worst_of_pairs<float>(ScalarOp::fmod, fmodl, 1 << 17),
              both = worst_of_pairs<double>(ScalarOp::fmod, fmodl, 1 << 15);
  EXPECT_EQ(single.error, 0) << single.at << ", " << single.and_at;
  EXPECT_EQ(both.error, 0) << both.at << ", " << both.and_at;
}

TEST(CpuFunctions, PowersOfTwoAreExact) {
  const cpu::ComputeFn exp2 = cpu::simd().scalar(ScalarOp::exp2, DType::f64),
                       log2 = cpu::simd().scalar(ScalarOp::log2, DType::f64);
  for (int first = -1074; first < 1024; first += 64) {
    double in[64], power[64], back[64];
    for (int k = 0; k < 64; ++k) in[k] = std::min(first + k, 1023);
    exp2(power, in, in, in, 64);
    log2(back, power, power, power, 64);
    for (int k = 0; k < 64; ++k) {
      EXPECT_EQ(power[k], std::ldexp(1.0, static_cast<int>(in[k])));
      EXPECT_EQ(back[k], in[k]);
    }
  }
}

TEST(CpuFunctions, ErrorsOfPowers) {
  const Worst single = worst_power<float>(1 << 17), both = worst_power<double>(1 << 16);
  EXPECT_LE(single.error, 1.0) << single.at << " ^ " << single.and_at;
  EXPECT_LE(both.error, 1.0) << both.at << " ^ " << both.and_at;
  RecordProperty("pow_ulp", std::to_string(single.error) + " " + std::to_string(both.error));
}

}  // namespace
}  // namespace volta
