// Elementwise arithmetic of the reference evaluator, with running error bounds.
#include "random_graph/random_graph_array.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace volta::random_graph {
namespace {

// Larger values are not tracked any further.
double tame_limit(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 2e4;
    case DType::i32:
      return 0x1p30;
    case DType::i64:
      return 0x1p50;
    default:
      return 1e6;
  }
}

// Below this a device may flush to zero or lose bits.
double tiny_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-24;
    case DType::f64:
      return 1e-300;
    default:
      return 1.2e-38;
  }
}

Num unknown() { return {0, kUnknown}; }
bool known(Num n) { return n.e < kUnknown; }
// Whether the interval of a value and its error contains `edge`.
bool straddles(Num n, double edge) { return n.e > 0 && std::fabs(n.v - edge) <= n.e; }

Num truth(bool value) { return {value ? 1.0 : 0.0, 0}; }

// The possible rest of a quotient whose divisor overflows f32.
constexpr double kVanished = 1e-36;

struct Rounded {
  Num n;
  double ulps;  // error of the function itself, as the most that OpenCL allows
};

Rounded function(Op op, Num x, double unit) {
  const double v = x.v, e = x.e, size = std::fabs(v);
  const double least = std::max(size - e, 0.0);  // the smallest possible operand of the device
  switch (op) {
    case Op::exp:
      return {{std::exp(v), std::exp(v) * std::expm1(e)}, 4};
    case Op::expm1:
      return {{std::expm1(v), std::exp(v) * std::expm1(e)}, 4};
    case Op::log:
      return v - e <= 0 ? Rounded{unknown(), 0} : Rounded{{std::log(v), -std::log1p(-e / v)}, 4};
    case Op::log1p:
      return v - e <= -1 ? Rounded{unknown(), 0}
                         : Rounded{{std::log1p(v), -std::log1p(-e / (1 + v))}, 4};
    case Op::sqrt:
      if (v - e < 0 || (v == 0 && e > 0)) return {unknown(), 0};
      return {{std::sqrt(v), v == 0 ? 0 : e / std::sqrt(v)}, 3};
    case Op::rsqrt:
      if (v - e <= 0) return {unknown(), 0};
      return {{1 / std::sqrt(v), 1 / std::sqrt(v - e) - 1 / std::sqrt(v)}, 3};
    case Op::reciprocal:
      if (least <= 0) return {unknown(), 0};
      return {{1 / v, e / (size * least)}, 3};
    case Op::sin:
      return {{std::sin(v), std::min(e, 2.0)}, 4};
    case Op::cos:
      return {{std::cos(v), std::min(e, 2.0)}, 4};
    case Op::tanh:
      return {{std::tanh(v), e * (1 - std::tanh(least) * std::tanh(least))}, 6};
    case Op::sigmoid:
      return {{1 / (1 + std::exp(-v)), e / 4 + kVanished}, 8};
    case Op::erf:
      return {{std::erf(v), e * 2 * std::numbers::inv_sqrtpi * std::exp(-least * least)}, 16};
    case Op::gelu:  // 1 + erf cancels for negative operands
      return {{v * 0.5 * (1 + std::erf(v * std::numbers::sqrt2 / 2)), 1.2 * e + 16 * unit * size},
              2};
    case Op::silu:
      return {{v / (1 + std::exp(-v)), 1.1 * e + kVanished}, 10};
    default:
      throw Invalid("no such function");
  }
}

Num unary_element(Op op, Num x, DType dtype) {
  const double v = x.v, e = x.e;
  if (!known(x)) return x;
  switch (op) {
    case Op::neg:
      return settled({-v, e}, dtype, 0);
    case Op::abs:
      return {std::fabs(v), e};
    case Op::sign:
      return straddles(x, 0) ? unknown() : Num{static_cast<double>((v > 0) - (v < 0)), 0};
    case Op::square:
      return settled({v * v, 2 * std::fabs(v) * e + e * e}, dtype, 1);
    case Op::floor:
      return std::floor(v - e) != std::floor(v + e) ? unknown() : Num{std::floor(v), 0};
    case Op::relu:
      return {std::max(v, 0.0), v + e <= 0 ? 0 : e};
    case Op::logical_not:
      return straddles(x, 0) ? unknown() : truth(v == 0);
    default:
      break;
  }
  const DType inner = inner_of(dtype);
  const Rounded r = function(op, x, unit_of(inner));
  const Num computed = settled(r.n, inner, r.ulps);
  return inner == dtype ? computed : settled(computed, dtype, 1);
}

// Exact operands are compared exactly; others only if they are far enough apart.
Num compared(Op op, Num a, Num b) {
  if (!known(a) || !known(b)) return unknown();
  if (a.e + b.e > 0 && std::fabs(a.v - b.v) <= a.e + b.e) return unknown();
  switch (op) {
    case Op::lt:
      return truth(a.v < b.v);
    case Op::le:
      return truth(a.v <= b.v);
    case Op::gt:
      return truth(a.v > b.v);
    case Op::ge:
      return truth(a.v >= b.v);
    case Op::eq:
      return truth(a.v == b.v);
    default:
      return truth(a.v != b.v);
  }
}

Num logical(Op op, Num a, Num b) {
  const bool sure_a = known(a) && !straddles(a, 0), sure_b = known(b) && !straddles(b, 0);
  const bool deciding = op == Op::logical_or;  // a true side decides an or, a false one an and
  if (sure_a && (a.v != 0) == deciding) return truth(deciding);
  if (sure_b && (b.v != 0) == deciding) return truth(deciding);
  return sure_a && sure_b ? truth(!deciding) : unknown();
}

Num power(Num a, Num b, DType dtype) {
  if (a.v - a.e <= 0) return unknown();
  const double v = std::pow(a.v, b.v);
  const double relative = std::fabs(b.v) * a.e / (a.v - a.e) + std::fabs(std::log(a.v)) * b.e;
  return settled({v, v * std::expm1(relative)}, dtype, 17);
}

Num binary_element(Op op, Num a, Num b, DType dtype) {
  if (is_comparison(op)) return compared(op, a, b);
  if (op == Op::logical_and || op == Op::logical_or) return logical(op, a, b);
  if (!known(a) || !known(b)) return unknown();
  switch (op) {
    case Op::add:
      return settled({a.v + b.v, a.e + b.e}, dtype, 1);
    case Op::sub:
      return settled({a.v - b.v, a.e + b.e}, dtype, 1);
    case Op::mul:
      return settled({a.v * b.v, std::fabs(a.v) * b.e + std::fabs(b.v) * a.e + a.e * b.e}, dtype,
                     1);
    case Op::div: {
      const double least = std::fabs(b.v) - b.e;
      if (least <= 0) return unknown();
      const double v = a.v / b.v;
      const double e = (a.e + std::fabs(v) * b.e) / least;
      return v == 0 && e == 0 ? Num{0, 0}
                              : settled({v, e + 2 * unit_of(dtype) * std::fabs(v)}, dtype, 1);
    }
    case Op::pow:
      return power(a, b, dtype);
    case Op::maximum:
    case Op::minimum: {
      const bool first = op == Op::maximum ? a.v >= b.v : a.v <= b.v;
      const double e = std::fabs(a.v - b.v) > a.e + b.e ? (first ? a.e : b.e) : std::max(a.e, b.e);
      return {first ? a.v : b.v, e};
    }
    default:
      throw Invalid("no such operation");
  }
}

// Arithmetic on truth values.
Op among_bools(Op op) {
  switch (op) {
    case Op::add:
    case Op::maximum:
      return Op::logical_or;
    case Op::mul:
    case Op::minimum:
      return Op::logical_and;
    case Op::sub:
      throw Invalid("sub of bools");
    default:
      return op;
  }
}

Num cast_element(Num n, DType from, DType to) {
  if (to == DType::boolean) {
    return !known(n) || straddles(n, 0) ? unknown() : truth(n.v != 0);
  }
  if (!is_floating(to)) {
    if (is_floating(from)) {
      // The device's result for such a number is not defined.
      if (!known(n) || std::fabs(n.v) + n.e > tame_limit(to == DType::u8 ? DType::i32 : to))
        throw Invalid("a cast to integers leaves their range");
      if (to == DType::u8 && (n.v - n.e < 0 || n.v + n.e > 255)) throw Invalid("a cast leaves u8");
      const double below = std::trunc(n.v - n.e), above = std::trunc(n.v + n.e);
      return below != above ? Num{std::trunc(n.v), kUnknown} : Num{std::trunc(n.v), 0};
    }
    return settled(n, to, 0);
  }
  if (!known(n)) return n;
  if (n.e == 0) {
    // The device may convert through f32, as for half precision, or directly.
    const double direct = rounded_to(n.v, to);
    const double through = to == DType::f64 ? direct : rounded_to(rounded_to(n.v, DType::f32), to);
    return settled({direct, std::fabs(through - direct)}, to, 0);
  }
  // Widening is exact.
  const bool widens = is_floating(from) && unit_of(to) < unit_of(from) && to != DType::f16;
  return settled(n, to, widens ? 0 : 1);
}

}  // namespace

Array::Array(Dims d, DType t)
    : dims(std::move(d)), dtype(t), at(static_cast<std::size_t>(numel_of(dims))) {}

std::int64_t numel_of(const Dims& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

double unit_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f32:
      return 0x1p-23;
    case DType::f64:
      return 0x1p-52;
    default:
      return 0;
  }
}

double rounded_to(double value, DType dtype) {
  if (dtype == DType::f64 || !is_floating(dtype) || value == 0) return value;
  if (dtype == DType::f32) return static_cast<double>(static_cast<float>(value));
  const int bits = dtype == DType::f16 ? 11 : 8, least = dtype == DType::f16 ? -14 : -126;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent, least + 1) - bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

Num settled(Num n, DType dtype, double ulps) {
  if (dtype == DType::u8) return {n.v - 256 * std::floor(n.v / 256), n.e};
  if (!is_floating(dtype)) {
    if (std::fabs(n.v) > tame_limit(dtype)) throw Invalid("an integer grows too large");
    return n;
  }
  if (!(n.e < kUnknown) || !(std::fabs(n.v) <= tame_limit(dtype))) return unknown();
  if (ulps == 0) return n;
  // Sums and products that the dtype represents exactly are exact; for doubles this requires short
  // fractions.
  const bool representable = dtype == DType::f64
                                 ? std::ldexp(n.v, 16) == std::nearbyint(std::ldexp(n.v, 16))
                                 : rounded_to(n.v, dtype) == n.v;
  if (n.e == 0 && ulps <= 1 && representable) return n;
  n.e += ulps * unit_of(dtype) * std::fabs(n.v) + tiny_of(dtype);
  return n;
}

DType promoted(DType a, DType b) {
  if (a == b) return a;
  const auto rank = [](DType t) {
    switch (t) {
      case DType::boolean:
        return 0;
      case DType::u8:
        return 1;
      case DType::i32:
        return 2;
      case DType::i64:
        return 3;
      case DType::f16:
      case DType::bf16:
        return 4;
      case DType::f32:
        return 5;
      default:
        return 6;
    }
  };
  if (rank(a) == rank(b)) return DType::f32;  // the two half dtypes
  return rank(a) > rank(b) ? a : b;
}

DType promoted(const Array& a, const Array& b) {
  const auto kind = [](DType t) { return is_floating(t) ? 2 : t == DType::boolean ? 0 : 1; };
  if ((a.rank() == 0) == (b.rank() == 0)) return promoted(a.dtype, b.dtype);
  const Array &array = a.rank() == 0 ? b : a, &point = a.rank() == 0 ? a : b;
  return kind(point.dtype) > kind(array.dtype) ? point.dtype : array.dtype;
}

Array filled(const Dims& dims, double value, DType dtype) {
  Array result(dims, dtype);
  double v = value;
  if (dtype == DType::boolean) v = value != 0 ? 1 : 0;
  if (is_integral(dtype) && dtype != DType::boolean) v = std::trunc(value);
  const double r = rounded_to(v, dtype);
  // A device may keep the number in f32 if the dtype is narrower.
  const Num n = is_floating(dtype) ? Num{v, std::fabs(r - v)} : settled({v, 0}, dtype, 0);
  std::fill(result.at.begin(), result.at.end(), n);
  return result;
}

Array unary(Op op, const Array& x) {
  Array result(x.dims, op == Op::logical_not ? DType::boolean : x.dtype);
  for (std::size_t i = 0; i < x.at.size(); ++i) result.at[i] = unary_element(op, x.at[i], x.dtype);
  return result;
}

Array binary(Op op, const Array& a, const Array& b) {
  if (a.dtype != b.dtype) throw Invalid("operands of two dtypes");
  if (a.dims != b.dims) {
    const Dims dims = broadcast(a.dims, b.dims);
    return binary(op, expand(a, dims), expand(b, dims));
  }
  if (a.dtype == DType::boolean) op = among_bools(op);
  const bool bools = is_comparison(op) || op == Op::logical_and || op == Op::logical_or;
  Array result(a.dims, bools ? DType::boolean : a.dtype);
  for (std::size_t i = 0; i < a.at.size(); ++i)
    result.at[i] = binary_element(op, a.at[i], b.at[i], a.dtype);
  return result;
}

Array where(const Array& condition, const Array& a, const Array& b) {
  const Dims dims = broadcast(condition.dims, broadcast(a.dims, b.dims));
  const Array c = expand(condition, dims), x = expand(a, dims), y = expand(b, dims);
  Array result(dims, a.dtype);
  for (std::size_t i = 0; i < result.at.size(); ++i)
    result.at[i] = !known(c.at[i]) ? unknown() : c.at[i].v != 0 ? x.at[i] : y.at[i];
  return result;
}

Array cast(const Array& x, DType dtype) {
  if (dtype == x.dtype) return x;
  Array result(x.dims, dtype);
  for (std::size_t i = 0; i < x.at.size(); ++i)
    result.at[i] = cast_element(x.at[i], x.dtype, dtype);
  return result;
}

std::uint32_t philox_word(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  const std::uint64_t block = offset + index / 4;
  std::uint64_t c[4] = {block & 0xFFFFFFFFu, block >> 32, 0, 0};
  std::uint64_t key[2] = {seed & 0xFFFFFFFFu, seed >> 32};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = 0xD2511F53u * c[0], second = 0xCD9E8D57u * c[2];
    const std::uint64_t next[4] = {(second >> 32) ^ c[1] ^ key[0], second & 0xFFFFFFFFu,
                                   (first >> 32) ^ c[3] ^ key[1], first & 0xFFFFFFFFu};
    std::copy(next, next + 4, c);
    key[0] = (key[0] + 0x9E3779B9u) & 0xFFFFFFFFu;
    key[1] = (key[1] + 0xBB67AE85u) & 0xFFFFFFFFu;
  }
  return static_cast<std::uint32_t>(c[index % 4]);
}

Array philox_uniform(std::uint64_t seed, std::uint64_t offset, const Dims& dims, DType dtype,
                     int stride, int first) {
  Array result(dims, dtype);
  for (std::size_t i = 0; i < result.at.size(); ++i) {
    const std::uint32_t word = philox_word(
        seed, offset, i * static_cast<std::size_t>(stride) + static_cast<std::size_t>(first));
    result.at[i].v = dtype == DType::f64 ? word * 0x1p-32 : (word >> 8) * 0x1p-24;
  }
  return result;
}

}  // namespace volta::random_graph
