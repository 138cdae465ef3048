// The prelude of a kernel: the dialect's names for common things, then the device functions that
// its program uses. Below the prelude both dialects read the same.
#include <array>
#include <string_view>

#include "kernel/emit/emit_printer.h"

namespace volta::kernel {
namespace {

constexpr std::string_view kCudaNames = R"(#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define BARRIER __syncthreads()
#define F32_BITS(x) __uint_as_float(x)
#define U32_OF(x) __float_as_uint(x)
#define F64_BITS(x) __longlong_as_double((long long)(x))
typedef float f32;
typedef double f64;
typedef long long i64;
typedef unsigned long long u64;
)";

constexpr std::string_view kOpenClNames = R"(#define DEVICE static inline
#define GLOBAL __global
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define F32_BITS(x) as_float(x)
#define U32_OF(x) as_uint(x)
#define F64_BITS(x) as_double(x)
typedef float f32;
typedef long i64;
typedef ulong u64;
)";

constexpr std::string_view kOpenClDouble = R"(#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
)";

// Values of storage types are held in registers as bits.
constexpr std::string_view kCommonNames = R"(typedef int i32;
typedef unsigned int u32;
typedef unsigned char u8;
typedef unsigned char b8;
typedef unsigned short f16;
typedef unsigned short bf16;
)";

constexpr std::string_view kIndex32 = R"(typedef i32 index_t;
typedef u32 uindex_t;
#define NO_POSITION 2147483647
)";

constexpr std::string_view kIndex64 = R"(typedef i64 index_t;
typedef u64 uindex_t;
#define NO_POSITION 9223372036854775807
)";

constexpr std::string_view kInRange = R"(
DEVICE bool in_range(index_t value, index_t high) { return value >= 0 && value < high; }
)";

constexpr std::string_view kCudaHalf = R"(
DEVICE f32 f32_from_f16(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
DEVICE f16 f16_from_f32(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)";

constexpr std::string_view kOpenClHalf = R"(
DEVICE f32 f32_from_f16(f16 x) { return vload_half(0, (const half*)&x); }
DEVICE f16 f16_from_f32(f32 x) {
  f16 y;
  vstore_half_rte(x, 0, (half*)&y);
  return y;
}
)";

constexpr std::string_view kCudaBrain = R"(
DEVICE f32 f32_from_bf16(bf16 x) { return F32_BITS((u32)x << 16); }
DEVICE bf16 bf16_from_f32(f32 x) {
#if __CUDA_ARCH__ >= 800
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
#else
  const u32 bits = U32_OF(x);
  if (x != x) return (bf16)(bits >> 16 | 0x40u);
  return (bf16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}
)";

constexpr std::string_view kOpenClBrain = R"(
DEVICE f32 f32_from_bf16(bf16 x) { return F32_BITS((u32)x << 16); }
DEVICE bf16 bf16_from_f32(f32 x) {
  const u32 bits = U32_OF(x);
  if (x != x) return (bf16)(bits >> 16 | 0x40u);
  return (bf16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
)";

// Arguments of all float dtypes arrive as the bits of a double. On devices without doubles, code
// rounds them to nearest even.
constexpr std::string_view kCudaFloatArg = R"(
DEVICE f32 arg_f32(u64 word) { return (f32)F64_BITS(word); }
)";

constexpr std::string_view kOpenClFloatArg = R"(
DEVICE f32 arg_f32(u64 word) {
  const u32 sign = (u32)(word >> 63) << 31;
  const int exponent = (int)(word >> 52 & 2047) - 896;
  const u64 mantissa = word & 0xfffffffffffff;
  if (exponent == 1151 && mantissa != 0) return F32_BITS(sign | 0x7fc00000u);
  if (exponent >= 255) return F32_BITS(sign | 0x7f800000u);
  const int shift = exponent > 0 ? 29 : 30 - exponent;
  if (shift > 54) return F32_BITS(sign);
  const u64 all = mantissa | (u64)1 << 52;
  u64 kept = all >> shift;
  const u64 rest = all - (kept << shift), half_unit = (u64)1 << (shift - 1);
  if (rest > half_unit || (rest == half_unit && (kept & 1) != 0)) ++kept;
  return F32_BITS(sign | (u32)(((u64)(exponent > 0 ? exponent - 1 : 0) << 23) + kept));
}
)";

constexpr std::string_view kPhilox = R"(
DEVICE void philox_block(u64 seed, u64 counter, u32* words) {
  u32 c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
    c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
    c1 = (u32)p1;
    c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
    c3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}
DEVICE u32 philox_word(u64 seed, u64 offset, u64 element) {
  u32 words[4];
  philox_block(seed, offset + (element >> 2), words);
  const u32 low = (element & 1) != 0 ? words[1] : words[0], high = (element & 1) != 0 ? words[3] : words[2];
  return (element & 2) != 0 ? high : low;
}
DEVICE i64 philox_i64(u32 word) { return (i64)word; }
DEVICE f32 philox_f32(u32 word) { return (f32)(word >> 8) * 5.9604644775390625e-8f; }
)";

constexpr std::string_view kPhiloxDouble = R"(
DEVICE f64 philox_f64(u32 word) { return (f64)word * 2.3283064365386962890625e-10; }
)";

constexpr std::string_view kErrorRecord = R"(
typedef struct {
  i32 claimed, site;
  i64 index, high;
} ErrorRecord;
)";

// The record is in memory that the host maps. The host reads it only after the kernel has ended, so
// the claim has to be atomic only among the device's threads.
constexpr std::string_view kCudaBounded = R"(
DEVICE i64 bounded(i64 value, i64 high, i32 site, ErrorRecord* error) {
  if (value >= 0 && value < high) return value;
  if (*(volatile i32*)&error->claimed == 0 && atomicCAS(&error->claimed, 0, 1) == 0) {
    error->site = site;
    error->index = value;
    error->high = high;
    __threadfence_system();
  }
  return value < 0 || high == 0 ? 0 : high - 1;
}
)";

constexpr std::string_view kOpenClBounded = R"(
DEVICE i64 bounded(i64 value, i64 high, i32 site, __global ErrorRecord* error) {
  if (value >= 0 && value < high) return value;
  if (atomic_cmpxchg((volatile __global int*)&error->claimed, 0, 1) == 0) {
    error->site = site;
    error->index = value;
    error->high = high;
  }
  return value < 0 || high == 0 ? 0 : high - 1;
}
)";

// The subroutine of f32 division for rare operands needs registers, which a row fills. A double can
// hold every quotient of floats with enough digits to round it, so there are no rare operands and
// the result is the same.
constexpr std::string_view kCudaQuotient = R"(
DEVICE f32 quotient_f32(f32 a, f32 b) {
  f64 guess;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(guess) : "d"((f64)b));
  f64 inverse = fma(guess, fma(-(f64)b, guess, 1.0), guess);
  inverse = fma(inverse, fma(-(f64)b, inverse, 1.0), inverse);
  const f64 quotient = (f64)a * inverse;
  return quotient - quotient == 0.0 ? (f32)quotient : a * (f32)guess;
}
)";

// From compute capability 8.0 on, one instruction replaces the comparisons.
constexpr std::string_view kCudaExtreme = R"(
DEVICE f32 {0}(f32 a, f32 b) {{
#if __CUDA_ARCH__ >= 800
  f32 extreme;
  asm("{1}.NaN.f32 %0, %1, %2;" : "=f"(extreme) : "f"(a), "f"(b));
  return extreme;
#else
  return {2};
#endif
}}
)";

// OpenCL's tanh may be off by five ulp, and some implementations never reach 1, where 1 - tanh²
// must be 0. Beyond this bound the nearest number is 1.
constexpr std::string_view kOpenClTanh = R"(
DEVICE {0} {1}({0} a) {{ return fabs(a) > {2} ? copysign(({0})1, a) : tanh(a); }}
)";

// Wraps like multiplication; with a negative exponent the result is 0 unless the base is 1 or -1.
constexpr std::string_view kIntegerPower = R"(
DEVICE i64 integer_power(i64 base, i64 exponent) {
  if (exponent < 0) return base == 1 || base == -1 ? ((exponent & 1) != 0 ? base : 1) : 0;
  u64 power = 1, factor = (u64)base;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= factor;
    factor *= factor;
  }
  return (i64)power;
}
)";

// The number of the `high` ascending keys that are smaller than a value.
constexpr std::string_view kSearch = R"(
DEVICE i32 search_{0}(GLOBAL const {0}* keys, index_t stride, index_t high, {0} value) {{
  index_t low = 0;
  while (low < high) {{
    const index_t middle = low + (high - low) / 2;
    const bool smaller = keys[middle * stride] < value;
    low = smaller ? middle + 1 : low;
    high = smaller ? high : middle;
  }}
  return (i32)low;
}}
)";

class PreludePrinter {
 public:
  PreludePrinter(const Program& program, Dialect dialect)
      : program_(program), cuda_(dialect == Dialect::Cuda) {}

  std::string print() {
    scan();
    const Dialect dialect = cuda_ ? Dialect::Cuda : Dialect::OpenCL;
    text_ = dialect_names(dialect, uses(DType::f64));
    text_ += program_.schedule.index64 ? kIndex64 : kIndex32;
    if (masked_) text_ += kInRange;
    for (const DType half : {DType::f16, DType::bf16}) {
      if (uses(half)) text_ += half_functions(half, dialect);
    }
    arguments();
    if (philox_) text_ += kPhilox;
    if (philox_ && uses(DType::f64)) text_ += kPhiloxDouble;
    if (bounded_) text_ += std::string(kErrorRecord).append(cuda_ ? kCudaBounded : kOpenClBounded);
    for (const DType dtype : {DType::i32, DType::i64}) {
      if (at(searched_, dtype)) text_ += fmt::format(fmt::runtime(kSearch), Printer::type(dtype));
    }
    packs();
    for (const DType dtype : {DType::i32, DType::i64, DType::u8, DType::boolean}) {
      if (!at(of(ScalarOp::pow), dtype)) continue;
      text_ += kIntegerPower;
      break;
    }
    for (int op = 0; op < kScalarOpCount; ++op) {
      for (int t = 0; t < kDTypeCount; ++t) {
        if (ops_[static_cast<std::size_t>(op)][static_cast<std::size_t>(t)]) {
          function(static_cast<ScalarOp>(op), static_cast<DType>(t));
        }
      }
    }
    for (int t = 0; t < kDTypeCount; ++t) {
      if (argmax_[static_cast<std::size_t>(t)]) comparison("higher", '>', static_cast<DType>(t));
      if (argmin_[static_cast<std::size_t>(t)]) comparison("lower", '<', static_cast<DType>(t));
    }
    return std::move(text_);
  }

 private:
  using PerDType = std::array<bool, kDTypeCount>;

  bool uses(DType dtype) const { return dtypes_[static_cast<std::size_t>(dtype)]; }
  static bool& at(PerDType& flags, DType dtype) { return flags[static_cast<std::size_t>(dtype)]; }
  PerDType& of(ScalarOp op) { return ops_[static_cast<std::size_t>(op)]; }

  void scan() {
    for (const Slot& slot : program_.slots) at(dtypes_, slot.dtype) = true;
    for (const DType dtype : program_.args) at(dtypes_, dtype) = true;
    for (const Instr& instr : program_.instrs) {
      if (instr.kind != InstrKind::Store) at(dtypes_, instr.dtype) = true;
      if (!instr.mask.empty()) masked_ = true;
      if (instr.kind == InstrKind::Philox) philox_ = true;
      if (instr.kind == InstrKind::Search) at(searched_, dtype(instr.a)) = true;
      if (instr.kind == InstrKind::Bounded) bounded_ = true;
      if (instr.kind == InstrKind::Op) {
        at(of(instr.op), dtype(instr.op == ScalarOp::where ? instr.b : instr.a)) = true;
      }
      if (instr.kind == InstrKind::Reduce) scan_reduce(instr);
      if (instr.kind == InstrKind::Scan) at(of(ScalarOp::add), instr.dtype) = true;
    }
  }

  void scan_reduce(const Instr& instr) {
    const DType operand = dtype(instr.a);
    switch (instr.reduce) {
      case ReduceOp::Sum:
        at(of(ScalarOp::add), operand) = true;
        break;
      case ReduceOp::Prod:
        at(of(ScalarOp::mul), operand) = true;
        break;
      case ReduceOp::Max:
        at(of(ScalarOp::maximum), operand) = true;
        break;
      case ReduceOp::Min:
        at(of(ScalarOp::minimum), operand) = true;
        break;
      case ReduceOp::ArgMax:
        at(argmax_, operand) = true;
        break;
      case ReduceOp::ArgMin:
        at(argmin_, operand) = true;
        break;
    }
  }

  void packs() {
    if (program_.schedule.vec == 1) return;
    PerDType stored{};
    for (const Slot& slot : program_.slots) at(stored, slot.dtype) = true;
    text_ += "\n";
    for (int t = 0; t < kDTypeCount; ++t) {
      if (stored[static_cast<std::size_t>(t)]) {
        text_ += pack_functions(static_cast<DType>(t), program_.schedule.vec,
                                cuda_ ? Dialect::Cuda : Dialect::OpenCL);
      }
    }
  }

  DType dtype(int operand) const {
    return program_.instrs[static_cast<std::size_t>(operand)].dtype;
  }

  void arguments() {
    PerDType wanted{};
    for (const DType dtype : program_.args) at(wanted, dtype) = true;
    if (at(wanted, DType::f32) || at(wanted, DType::f16) || at(wanted, DType::bf16)) {
      text_ += cuda_ ? kCudaFloatArg : kOpenClFloatArg;
    }
    for (int t = 0; t < kDTypeCount; ++t) {
      const DType dtype = static_cast<DType>(t);
      if (!at(wanted, dtype) || dtype == DType::f32) continue;
      std::string expression = fmt::format("({})word", Printer::type(dtype));
      if (dtype == DType::f64) expression = "F64_BITS(word)";
      if (dtype == DType::boolean) expression = "(b8)(word != 0)";
      if (dtype == DType::f16 || dtype == DType::bf16) {
        expression = fmt::format("{}_from_f32(arg_f32(word))", Printer::type(dtype));
      }
      text_ += fmt::format("\nDEVICE {0} arg_{0}(u64 word) {{ return {1}; }}\n",
                           Printer::type(dtype), expression);
    }
  }

  void function(ScalarOp op, DType dtype) {
    const ScalarOpInfo& row = info(op);
    const std::string_view expression =
        is_floating(dtype) ? row.float_expression : row.integer_expression;
    if (cuda_ && dtype == DType::f32) {
      if (op == ScalarOp::maximum || op == ScalarOp::minimum) {
        text_ += fmt::format(fmt::runtime(kCudaExtreme), Printer::op_function(op, dtype),
                             op == ScalarOp::maximum ? "max" : "min", expression);
        return;
      }
      if (op == ScalarOp::div && fills_registers(program_)) text_ += kCudaQuotient;
    }
    const std::string type = Printer::type(dtype);
    if (!cuda_ && op == ScalarOp::tanh) {
      text_ += fmt::format(fmt::runtime(kOpenClTanh), type, Printer::op_function(op, dtype),
                           dtype == DType::f32 ? "9.02f" : "19.07");
      return;
    }
    const bool truth = row.result == ScalarResult::Bool || dtype == DType::boolean;
    std::string parameters = (op == ScalarOp::where ? "b8" : type) + " a";
    if (row.arity > 1) parameters += ", " + type + " b";
    if (row.arity > 2) parameters += ", " + type + " c";
    text_ += fmt::format("\nDEVICE {} {}({}) {{\n", truth ? "b8" : type,
                         Printer::op_function(op, dtype), parameters);
    if (expression.find("(T)") != std::string_view::npos)
      text_ += fmt::format("  typedef {} T;\n", type);
    text_ += truth ? fmt::format("  return (b8)(({}) != 0);\n}}\n", expression)
                   : fmt::format("  return ({})({});\n}}\n", type, expression);
  }

  // Whether (value, position) comes before the best so far: NaN first, then by value, ties by the
  // smaller position.
  void comparison(const char* name, char sign, DType dtype) {
    text_ += fmt::format(
        "\nDEVICE bool {0}_{1}({1} value, index_t position, {1} best, index_t best_position) {{\n"
        "{2}  return value {3} best || (value == best && position < best_position);\n}}\n",
        name, Printer::type(dtype),
        is_floating(dtype)
            ? "  if (value != value) return best == best || position < best_position;\n"
            : "",
        sign);
  }

  const Program& program_;
  const bool cuda_;
  bool masked_ = false, philox_ = false, bounded_ = false;
  PerDType dtypes_{}, argmax_{}, argmin_{}, searched_{};
  std::array<PerDType, kScalarOpCount> ops_{};
  std::string text_;
};

}  // namespace

std::string dialect_names(Dialect dialect, bool doubles) {
  const bool cuda = dialect == Dialect::Cuda;
  std::string text(cuda ? kCudaNames : kOpenClNames);
  if (!cuda && doubles) text += kOpenClDouble;
  return text.append(kCommonNames);
}

std::string_view half_functions(DType dtype, Dialect dialect) {
  const bool cuda = dialect == Dialect::Cuda;
  if (dtype == DType::bf16) return cuda ? kCudaBrain : kOpenClBrain;
  return cuda ? kCudaHalf : kOpenClHalf;
}

std::string prelude(const Program& program, Dialect dialect) {
  return PreludePrinter(program, dialect).print();
}

}  // namespace volta::kernel
