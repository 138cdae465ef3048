// A slow interpreter of kernel programs on host memory that is easy to verify, the reference for
// every backend. Floats are computed in double and rounded only where a value is loaded, cast or
// stored; integers are computed in int64 and wrapped to their dtype. Each Par point is evaluated
// instruction by instruction over all of its Red points.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernel/philox.h"
#include "kernel/program.h"

namespace volta::testing {

inline double half_to_double(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

inline std::uint16_t double_to_half(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7c00;
  if (magnitude < std::ldexp(1, -14)) {
    return static_cast<std::uint16_t>(sign + std::lrint(std::ldexp(magnitude, 24)));
  }
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);    // in [0.5, 1)
  const long mantissa = std::lrint(std::ldexp(fraction, 11));  // 1024 ... 2048
  return static_cast<std::uint16_t>(sign + ((exponent + 13) << 10) + mantissa);
}

inline double bfloat_to_double(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t double_to_bfloat(double value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// A value of a dtype: `f` for floats, `i` otherwise.
struct Value {
  double f = 0;
  std::int64_t i = 0;
};

inline double round_float(double value, DType dtype) {
  const float single = static_cast<float>(value);
  switch (dtype) {
    case DType::f16:
      return half_to_double(double_to_half(single));
    case DType::bf16:
      return bfloat_to_double(double_to_bfloat(single));
    case DType::f32:
      return single;
    default:
      return value;
  }
}

inline std::int64_t wrap_integer(std::int64_t value, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return static_cast<std::int32_t>(value);
    case DType::u8:
      return static_cast<std::uint8_t>(value);
    case DType::boolean:
      return value != 0;
    default:
      return value;
  }
}

inline Value constant_value(double constant, DType dtype) {
  if (is_floating(dtype)) return {.f = round_float(constant, dtype)};
  return {.i = wrap_integer(static_cast<std::int64_t>(constant), dtype)};
}

inline Value read_element(const void* buffer, std::int64_t index, DType dtype) {
  const char* at =
      static_cast<const char*>(buffer) + index * static_cast<std::int64_t>(size_of(dtype));
  const auto get = [at]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f16:
      return {.f = half_to_double(get(std::uint16_t{}))};
    case DType::bf16:
      return {.f = bfloat_to_double(get(std::uint16_t{}))};
    case DType::f32:
      return {.f = get(float{})};
    case DType::f64:
      return {.f = get(double{})};
    case DType::i32:
      return {.i = get(std::int32_t{})};
    case DType::i64:
      return {.i = get(std::int64_t{})};
    default:
      return {.i = get(std::uint8_t{})};
  }
}

inline void write_element(void* buffer, std::int64_t index, DType dtype, Value value) {
  char* at = static_cast<char*>(buffer) + index * static_cast<std::int64_t>(size_of(dtype));
  const auto put = [at](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (dtype) {
    case DType::f16:
      return put(double_to_half(static_cast<float>(value.f)));
    case DType::bf16:
      return put(double_to_bfloat(value.f));
    case DType::f32:
      return put(static_cast<float>(value.f));
    case DType::f64:
      return put(value.f);
    case DType::i32:
      return put(static_cast<std::int32_t>(value.i));
    case DType::i64:
      return put(value.i);
    default:
      return put(static_cast<std::uint8_t>(value.i));
  }
}

inline double float_op(kernel::ScalarOp op, double a, double b) {
  using enum kernel::ScalarOp;
  switch (op) {
    case neg:
      return -a;
    case abs:
      return std::fabs(a);
    case sign:
      return (a > 0) - (a < 0);
    case exp:
      return std::exp(a);
    case exp2:
      return std::exp2(a);
    case expm1:
      return std::expm1(a);
    case log:
      return std::log(a);
    case log2:
      return std::log2(a);
    case log1p:
      return std::log1p(a);
    case sqrt:
      return std::sqrt(a);
    case rsqrt:
      return 1 / std::sqrt(a);
    case sin:
      return std::sin(a);
    case cos:
      return std::cos(a);
    case tan:
      return std::tan(a);
    case asin:
      return std::asin(a);
    case acos:
      return std::acos(a);
    case atan:
      return std::atan(a);
    case sinh:
      return std::sinh(a);
    case cosh:
      return std::cosh(a);
    case tanh:
      return std::tanh(a);
    case erf:
      return std::erf(a);
    case floor:
      return std::floor(a);
    case round:
      return std::nearbyint(a);
    case add:
      return a + b;
    case sub:
      return a - b;
    case mul:
      return a * b;
    case div:
      return a / b;
    case fmod:
      return std::fmod(a, b);
    case pow:
      return std::pow(a, b);
    case atan2:
      return std::atan2(a, b);
    case maximum:
      return std::isnan(a) || a > b ? a : b;
    case minimum:
      return std::isnan(a) || a < b ? a : b;
    default:
      throw std::logic_error("reference: not a float operation");
  }
}

inline std::int64_t integer_op(kernel::ScalarOp op, std::int64_t a, std::int64_t b) {
  using enum kernel::ScalarOp;
  const std::uint64_t ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  switch (op) {
    case neg:
      return static_cast<std::int64_t>(0 - ua);
    case abs:
      return a < 0 ? static_cast<std::int64_t>(0 - ua) : a;
    case sign:
      return (a > 0) - (a < 0);
    case floor:
    case round:
      return a;
    case add:
      return static_cast<std::int64_t>(ua + ub);
    case sub:
      return static_cast<std::int64_t>(ua - ub);
    case mul:
      return static_cast<std::int64_t>(ua * ub);
    case div:
      return b == 0 ? 0 : b == -1 ? static_cast<std::int64_t>(0 - ua) : a / b;
    case fmod:
      return b == 0 || b == -1 ? 0 : a % b;
    case pow: {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
      std::uint64_t power = 1;
      for (int bit = 62; bit >= 0; --bit) {
        power *= power;
        if ((b >> bit & 1) != 0) power *= ua;
      }
      return static_cast<std::int64_t>(power);
    }
    case maximum:
      return a > b ? a : b;
    case minimum:
      return a < b ? a : b;
    default:
      throw std::logic_error("reference: not an integer operation");
  }
}

template <class T>
bool truth_op(kernel::ScalarOp op, T a, T b) {
  using enum kernel::ScalarOp;
  switch (op) {
    case logical_not:
      return a == 0;
    case lt:
      return a < b;
    case le:
      return a <= b;
    case eq:
      return a == b;
    case ne:
      return a != b;
    case logical_and:
      return a != 0 && b != 0;
    case logical_or:
      return a != 0 || b != 0;
    case logical_xor:
      return (a != 0) != (b != 0);
    default:
      throw std::logic_error("reference: not a predicate");
  }
}

inline Value scalar_op(kernel::ScalarOp op, DType operands, DType result, Value a, Value b,
                       Value c) {
  if (op == kernel::ScalarOp::where) return a.i != 0 ? b : c;
  if (kernel::info(op).result == kernel::ScalarResult::Bool) {
    return {.i = is_floating(operands) ? truth_op(op, a.f, b.f) : truth_op(op, a.i, b.i)};
  }
  if (is_floating(result)) return {.f = float_op(op, a.f, b.f)};
  return {.i = wrap_integer(integer_op(op, a.i, b.i), result)};
}

inline Value cast_value(Value value, DType from, DType to) {
  if (is_floating(to)) {
    return {.f = round_float(is_floating(from) ? value.f : static_cast<double>(value.i), to)};
  }
  if (!is_floating(from)) return {.i = wrap_integer(value.i, to)};
  if (to == DType::boolean) return {.i = value.f != 0};
  return {.i = wrap_integer(static_cast<std::int64_t>(value.f), to)};
}

inline Value lowest_value(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return {.i = std::numeric_limits<std::int32_t>::min()};
    case DType::i64:
      return {.i = std::numeric_limits<std::int64_t>::min()};
    case DType::u8:
    case DType::boolean:
      return {.i = 0};
    default:
      return {.f = -std::numeric_limits<double>::infinity()};
  }
}

inline Value highest_value(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return {.i = std::numeric_limits<std::int32_t>::max()};
    case DType::i64:
      return {.i = std::numeric_limits<std::int64_t>::max()};
    case DType::u8:
      return {.i = 255};
    case DType::boolean:
      return {.i = 1};
    default:
      return {.f = std::numeric_limits<double>::infinity()};
  }
}

// Whether `challenger` replaces `best` in a max (or min). NaN beats everything, and the first one
// stays.
inline bool beats(Value challenger, Value best, DType dtype, bool max) {
  if (!is_floating(dtype)) return max ? challenger.i > best.i : challenger.i < best.i;
  if (std::isnan(best.f)) return false;
  if (std::isnan(challenger.f)) return true;
  return max ? challenger.f > best.f : challenger.f < best.f;
}

inline Value reduce_values(kernel::ReduceOp op, DType dtype, const std::vector<Value>& values) {
  using enum kernel::ReduceOp;
  const bool max = op == Max || op == ArgMax;
  if (op == Sum || op == Prod) {
    Value total = constant_value(op == Sum ? 0 : 1, dtype);
    const kernel::ScalarOp step = op == Sum ? kernel::ScalarOp::add : kernel::ScalarOp::mul;
    for (const Value value : values) total = scalar_op(step, dtype, dtype, total, value, {});
    return total;
  }
  Value best = max ? lowest_value(dtype) : highest_value(dtype);
  std::int64_t position = 0;
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (r == 0 || beats(values[r], best, dtype, max)) {
      best = values[r];
      position = static_cast<std::int64_t>(r);
    }
  }
  return op == Max || op == Min ? best : Value{.i = position};
}

class ReferenceRun {
 public:
  ReferenceRun(const kernel::Program& program, const std::vector<std::int64_t>& ints,
               const std::vector<void*>& buffers, const std::uint64_t* args,
               kernel::ErrorRecord* error)
      : program_(program), ints_(ints), buffers_(buffers), args_(args), error_(error) {
    for (const kernel::Axis& axis : program.axes) {
      (axis.role == kernel::Role::Par ? par_points_ : red_points_) *= axis.extent.in(ints);
    }
    for (const kernel::Instr& instr : program.instrs) full_.push_back(is_full(instr));
  }

  void run() {
    for (par_ = 0; par_ < par_points_; ++par_) {
      values_.assign(program_.instrs.size(), {});
      for (std::size_t n = 0; n < program_.instrs.size(); ++n) {
        const kernel::Instr& instr = program_.instrs[n];
        if (instr.kind == kernel::InstrKind::Scan) {
          scan(instr, values_[n]);
          continue;
        }
        if (instr.kind == kernel::InstrKind::Reduce) {
          std::vector<Value> row;
          for (std::int64_t r = 0; r < row_points(); ++r) row.push_back(operand(instr.a, r));
          values_[n] = {reduce_values(instr.reduce, dtype_of_operand(instr.a), row)};
          continue;
        }
        for (std::int64_t r = 0; r < (full_[n] ? red_points_ : 1); ++r) {
          set_point(r);
          values_[n].push_back(evaluate(instr, r));
        }
      }
    }
  }

 private:
  bool uses_red(const kernel::Affine& affine) const {
    for (const kernel::Term& term : affine.terms) {
      if (program_.axes[static_cast<std::size_t>(term.axis)].role == kernel::Role::Red) return true;
    }
    return false;
  }

  bool is_full(const kernel::Instr& instr) const {
    if (instr.kind == kernel::InstrKind::Reduce) return false;
    if (instr.kind == kernel::InstrKind::Scan) return true;
    for (const int operand : {instr.a, instr.b, instr.c}) {
      if (operand >= 0 && full_[static_cast<std::size_t>(operand)]) return true;
    }
    for (const kernel::Bound& bound : instr.mask) {
      if (uses_red(bound.expression)) return true;
    }
    return uses_red(instr.index);
  }

  // The part of the row within its bound.
  std::int64_t row_points() const {
    const int bound = program_.axes.empty() ? -1 : program_.axes.back().bound;
    return bound < 0 ? red_points_ : std::min(red_points_, operand(bound, 0).i);
  }

  void scan(const kernel::Instr& instr, std::vector<Value>& row) const {
    Value sum = instr.b < 0 ? constant_value(0, instr.dtype) : operand(instr.b, 0);
    row.resize(static_cast<std::size_t>(red_points_));
    for (std::int64_t i = 0; i < red_points_; ++i) {
      const std::int64_t r = instr.reverse ? red_points_ - 1 - i : i;
      sum =
          scalar_op(kernel::ScalarOp::add, instr.dtype, instr.dtype, sum, operand(instr.a, r), {});
      row[static_cast<std::size_t>(r)] = sum;
    }
  }

  // The iteration point: par_ over the Par axes, r over the Red axes.
  void set_point(std::int64_t r) {
    point_.assign(program_.axes.size(), 0);
    std::int64_t par = par_;
    first_ = par_ == 0 && r == 0;
    for (std::size_t n = program_.axes.size(); n-- > 0;) {
      std::int64_t& rest = program_.axes[n].role == kernel::Role::Par ? par : r;
      const std::int64_t extent = program_.axes[n].extent.in(ints_);
      if (extent == 0) continue;
      point_[n] = rest % extent;
      rest /= extent;
    }
  }

  std::int64_t at_point(const kernel::Affine& affine) const {
    std::int64_t sum = affine.offset.in(ints_);
    for (const kernel::Term& term : affine.terms) {
      sum += point_[static_cast<std::size_t>(term.axis)] * term.coefficient.in(ints_);
    }
    return sum;
  }

  bool holds(const std::vector<kernel::Bound>& mask) const {
    for (const kernel::Bound& bound : mask) {
      const std::int64_t value = at_point(bound.expression);
      if (value < 0 || value >= bound.high.in(ints_)) return false;
    }
    return true;
  }

  Value operand(int n, std::int64_t r) const {
    if (n < 0) return {};
    const std::vector<Value>& values = values_[static_cast<std::size_t>(n)];
    return values[full_[static_cast<std::size_t>(n)] ? static_cast<std::size_t>(r) : 0];
  }

  DType dtype_of_operand(int n) const { return program_.instrs[static_cast<std::size_t>(n)].dtype; }

  Value bounded(const kernel::Instr& instr, std::int64_t value) const {
    const std::int64_t high = instr.high.in(ints_);
    if (value >= 0 && value < high) return {.i = value};
    if (error_ != nullptr && error_->claimed == 0) {
      *error_ = {1, static_cast<std::int32_t>(instr.site.in(ints_)), value, high};
    }
    return {.i = value < 0 || high == 0 ? 0 : high - 1};
  }

  Value evaluate(const kernel::Instr& instr, std::int64_t r) const {
    const Value a = operand(instr.a, r), b = operand(instr.b, r), c = operand(instr.c, r);
    switch (instr.kind) {
      case kernel::InstrKind::Const:
        return constant_value(instr.constant, instr.dtype);
      case kernel::InstrKind::Arg: {
        const std::uint64_t word = args_[instr.slot];
        if (is_floating(instr.dtype))
          return {.f = round_float(std::bit_cast<double>(word), instr.dtype)};
        return {.i = wrap_integer(std::bit_cast<std::int64_t>(word), instr.dtype)};
      }
      case kernel::InstrKind::Index:
        return {.i = wrap_integer(at_point(instr.index), instr.dtype)};
      case kernel::InstrKind::Op:
        return scalar_op(instr.op, dtype_of_operand(instr.a), instr.dtype, a, b, c);
      case kernel::InstrKind::Cast:
        return cast_value(a, dtype_of_operand(instr.a), instr.dtype);
      case kernel::InstrKind::Load: {
        if (!holds(instr.mask)) return constant_value(instr.constant, instr.dtype);
        const std::int64_t gathered = instr.a < 0 ? 0 : a.i * instr.value_stride.in(ints_);
        return read_element(buffers_[static_cast<std::size_t>(instr.slot)],
                            at_point(instr.index) + gathered, instr.dtype);
      }
      case kernel::InstrKind::Bounded:
        return bounded(instr, a.i);
      case kernel::InstrKind::Philox: {
        const std::uint64_t element = static_cast<std::uint64_t>(at_point(instr.index));
        const std::uint32_t word =
            kernel::philox(static_cast<std::uint64_t>(a.i),
                           static_cast<std::uint64_t>(b.i) + element / 4)[element % 4];
        if (instr.dtype == DType::i64) return {.i = word};
        return {.f =
                    instr.dtype == DType::f32 ? std::ldexp(word >> 8, -24) : std::ldexp(word, -32)};
      }
      case kernel::InstrKind::Store:
        if ((!instr.once || first_) && holds(instr.mask)) {
          write_element(buffers_[static_cast<std::size_t>(instr.slot)], at_point(instr.index),
                        program_.slots[static_cast<std::size_t>(instr.slot)].dtype, a);
        }
        return {};
      case kernel::InstrKind::Search: {
        std::int64_t smaller = 0;
        for (std::int64_t i = 0; i < instr.high.in(ints_); ++i) {
          const Value key = read_element(buffers_[static_cast<std::size_t>(instr.slot)],
                                         at_point(instr.index) + i * instr.value_stride.in(ints_),
                                         dtype_of_operand(instr.a));
          smaller += key.i < a.i;
        }
        return {.i = smaller};
      }
      case kernel::InstrKind::Reduce:
      case kernel::InstrKind::Scan:
        break;  // run() processes whole rows
    }
    throw std::logic_error("reference: unknown instruction");
  }

  const kernel::Program& program_;
  const std::vector<std::int64_t>& ints_;
  const std::vector<void*>& buffers_;
  const std::uint64_t* args_;
  kernel::ErrorRecord* error_;
  std::int64_t par_points_ = 1, red_points_ = 1, par_ = 0;
  bool first_ = false;
  std::vector<bool> full_;
  std::vector<std::int64_t> point_;
  std::vector<std::vector<Value>> values_;
};

// Runs one binding of `program`. `error` may be null if the program has no Bounded.
inline void run_reference(const kernel::Program& program, const std::vector<std::int64_t>& ints,
                          const std::vector<void*>& buffers, const std::uint64_t* args,
                          kernel::ErrorRecord* error) {
  ReferenceRun(program, ints, buffers, args, error).run();
}

}  // namespace volta::testing
