// Accumulators, and the tree that combines those of the lanes, which depends on the schedule alone.
#include <algorithm>
#include <limits>

#include "kernel/emit/emit_row.h"

namespace volta::kernel {
namespace {

constexpr int kTreeWidth = 8;  // values that a thread combines per level of the local-memory tree

std::string identity(ReduceOp op, DType dtype) {
  const bool max = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  if (op == ReduceOp::Sum || op == ReduceOp::Prod)
    return Printer::constant(op == ReduceOp::Sum ? 0 : 1, dtype);
  switch (dtype) {
    case DType::i32:
      return max ? "(-2147483647 - 1)" : "2147483647";
    case DType::i64:
      return max ? "(-(i64)9223372036854775807 - 1)" : "(i64)9223372036854775807";
    case DType::u8:
      return max ? "(u8)0" : "(u8)255";
    case DType::boolean:
      return max ? "(b8)0" : "(b8)1";
    default: {
      const double infinity = std::numeric_limits<double>::infinity();
      return Printer::constant(max ? -infinity : infinity, dtype);
    }
  }
}

ScalarOp combining_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return ScalarOp::add;
    case ReduceOp::Prod:
      return ScalarOp::mul;
    case ReduceOp::Max:
      return ScalarOp::maximum;
    default:
      return ScalarOp::minimum;
  }
}

}  // namespace

ReductionPrinter::ReductionPrinter(Printer& printer, Dialect dialect)
    : out_(printer),
      cuda_(dialect == Dialect::Cuda),
      lanes_(printer.program().schedule.lanes),
      threads_(block_threads(printer.program())) {}

bool ReductionPrinter::has_position(int n) const {
  const ReduceOp op = out_.instr(n).reduce;
  return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
}

void ReductionPrinter::print_scratch(const RowPlan& plan) {
  if (lanes_ == 1 || cuda_) return;
  bool position = false;
  std::vector<bool> declared(kDTypeCount);
  for (const RowPhase& phase : plan.phases) {
    for (const int n : phase.reduces) {
      const DType dtype = operand_dtype(n);
      position |= has_position(n);
      if (declared[static_cast<std::size_t>(dtype)]) continue;
      declared[static_cast<std::size_t>(dtype)] = true;
      out_.line("__local {0} scratch_{0}[{1}];", Printer::type(dtype), threads_);
    }
  }
  if (position) out_.line("__local index_t scratch_position[{}];", threads_);
}

void ReductionPrinter::print_accumulator(int n, int count) {
  const std::string type = Printer::type(operand_dtype(n));
  const std::string first = identity(out_.instr(n).reduce, operand_dtype(n));
  if (count == 0) {
    out_.line("{} a{} = {};", type, n, first);
    if (has_position(n)) out_.line("index_t at{} = NO_POSITION;", n);
    return;
  }
  out_.line("{} a{}[{}];", type, n, count);
  for (int k = 0; k < count; ++k) out_.line("a{}[{}] = {};", n, k, first);
  if (!has_position(n)) return;
  out_.line("index_t at{}[{}];", n, count);
  for (int k = 0; k < count; ++k) out_.line("at{}[{}] = NO_POSITION;", n, k);
}

void ReductionPrinter::print_accumulation(int n, const std::string& element,
                                          const std::string& position) {
  combine(n, fmt::format("a{}{}", n, element), fmt::format("at{}{}", n, element),
          out_.value(out_.instr(n).a), position);
}

// Combines (value, position) into (into, into_position): the sum, or the better of the two.
void ReductionPrinter::combine(int n, const std::string& into, const std::string& into_position,
                               const std::string& value, const std::string& position) {
  const Instr& self = out_.instr(n);
  const DType dtype = operand_dtype(n);
  if (!has_position(n)) {
    out_.line("{0} = {1}({0}, {2});", into, Printer::op_function(combining_op(self.reduce), dtype),
              value);
    return;
  }
  const char* better = self.reduce == ReduceOp::ArgMax ? "higher" : "lower";
  out_.open(fmt::format("if ({}_{}({}, {}, {}, {}))", better, Printer::type(dtype), value, position,
                        into, into_position));
  out_.line("{} = {};", into, value);
  out_.line("{} = {};", into_position, position);
  out_.close();
}

void ReductionPrinter::print_join(const std::vector<int>& reduces) {
  if (lanes_ == 1 || reduces.empty()) return;
  if (!cuda_) {
    for (const int n : reduces) join_in_local_memory(n);
    return;
  }
  for (const int n : reduces) butterfly(n, std::min(lanes_, 32));
  if (lanes_ > 32) join_warps(reduces);
}

// CUDA: the lanes of a warp exchange values until each has the result.
void ReductionPrinter::butterfly(int n, int width) {
  out_.raw("#pragma unroll");
  out_.open(fmt::format("for (int m = {}; m > 0; m >>= 1)", width / 2));
  out_.line("const {0} o = ({0})__shfl_xor_sync(0xffffffffu, a{1}, m);",
            Printer::type(operand_dtype(n)), n);
  if (has_position(n)) out_.line("const index_t p = __shfl_xor_sync(0xffffffffu, at{}, m);", n);
  combine(n, fmt::format("a{}", n), fmt::format("at{}", n), "o", "p");
  out_.close();
}

// CUDA: each warp puts its result into shared memory, and every warp combines them all. The arrays
// are not reused, so one barrier per phase is enough.
void ReductionPrinter::join_warps(const std::vector<int>& reduces) {
  const int warps = lanes_ / 32;
  for (const int n : reduces) {
    out_.line("__shared__ {} warp{}[{}];", Printer::type(operand_dtype(n)), n, warps);
    out_.line("if (thread % 32 == 0) warp{0}[thread / 32] = a{0};", n);
    if (!has_position(n)) continue;
    out_.line("__shared__ index_t j{}[{}];", n, warps);
    out_.line("if (thread % 32 == 0) j{0}[thread / 32] = at{0};", n);
  }
  out_.line("BARRIER;");
  for (const int n : reduces) {
    out_.line("a{0} = warp{0}[thread % {1}];", n, warps);
    if (has_position(n)) out_.line("at{0} = j{0}[thread % {1}];", n, warps);
    butterfly(n, warps);
  }
}

// OpenCL 1.2 has no subgroup exchange, so lanes combine in a flat tree in local memory, which needs
// few barriers; there is one scratch array per dtype.
void ReductionPrinter::join_in_local_memory(int n) {
  const std::string scratch = "scratch_" + Printer::type(operand_dtype(n));
  out_.line("{}[thread] = a{};", scratch, n);
  if (has_position(n)) out_.line("scratch_position[thread] = at{};", n);
  out_.line("BARRIER;");
  for (int width = lanes_; width > 1;) {
    const int left = std::max(width / kTreeWidth, 1);
    out_.open(fmt::format("if (lane < {})", left));
    out_.open(fmt::format("for (int m = {0}; m < {1}; m += {0})", left, width));
    combine(n, scratch + "[thread]", "scratch_position[thread]", scratch + "[thread + m]",
            "scratch_position[thread + m]");
    out_.close();
    out_.close();
    out_.line("BARRIER;");
    width = left;
  }
  out_.line("a{} = {}[thread - lane];", n, scratch);
  if (has_position(n)) out_.line("at{} = scratch_position[thread - lane];", n);
  out_.line("BARRIER;");
}

}  // namespace volta::kernel
