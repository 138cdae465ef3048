// Row kernels: `lanes` threads share each Par point. A phase loops over the row elements of the
// thread, then its reductions are combined across the lanes; the combining tree is a function of
// the schedule alone.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernel/dependence.h"
#include "kernel/emit_printer.h"

namespace volta::kernel {
namespace {

bool is_arg_reduce(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }

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

class RowPrinter {
 public:
  RowPrinter(Printer& printer, Dialect dialect)
      : out_(printer),
        cuda_(dialect == Dialect::Cuda),
        lanes_(printer.program().schedule.lanes),
        items_(printer.program().schedule.items),
        threads_(block_threads(printer.program())),
        axes_(static_cast<int>(printer.program().axes.size())),
        live_(live_instructions(printer.program())) {
    while (reds_ < axes_ &&
           printer.program().axes[static_cast<std::size_t>(reds_)].role == Role::Par)
      ++reds_;
  }

  void print() {
    plan_phases();
    if (lanes_ > 1 && !cuda_) print_scratch();
    print_point();
    for (int n = 0; n < out_.instr_count(); ++n) {
      if (kept_[static_cast<std::size_t>(n)]) {
        out_.line("{} k{}[{}];", Printer::type(out_.instr(n).dtype), n, items_);
      }
    }
    for (int phase = 0; phase < out_.analysis().phases; ++phase) {
      print_par_values(phase);
      print_row_values(phase);
      print_combination(phase);
    }
  }

 private:
  // What one phase does with row values: takes them from registers of an earlier phase, or computes
  // them. With items, Loads are issued for all items before anything waits for one.
  struct Phase {
    std::vector<int> fetch, loads, compute, reduces;
  };

  void plan_phases() {
    const std::size_t count = out_.program().instrs.size();
    std::vector<bool> done(count);
    kept_.assign(count, false);
    for (int phase = 0; phase < out_.analysis().phases; ++phase) {
      std::vector<bool> needed = row_values_of_phase(out_.program(), out_.analysis(), phase);
      if (items_ > 0 && phase == 0) need_updated_loads(needed);
      if (items_ > 0 && phase > 0) stop_at_done(needed, done, phase);
      Phase plan;
      for (int n = 0; n < out_.instr_count(); ++n) {
        const std::size_t at = static_cast<std::size_t>(n);
        if (!needed[at]) continue;
        if (out_.instr(n).kind == InstrKind::Reduce) plan.reduces.push_back(n);
        if (done[at]) {
          plan.fetch.push_back(n);
          kept_[at] = true;
        } else {
          const bool early =
              items_ > 0 && out_.instr(n).kind == InstrKind::Load && out_.instr(n).a < 0;
          (early ? plan.loads : plan.compute).push_back(n);
          if (early) kept_[at] = true;
          // An index is cheaper to compute again than to keep.
          if (items_ > 0 && out_.instr(n).kind != InstrKind::Index) done[at] = true;
        }
      }
      phases_.push_back(std::move(plan));
    }
  }

  // A slot that is updated in place is read before its Store, in the first phase, whoever needs it
  // later.
  void need_updated_loads(std::vector<bool>& needed) const {
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      if (self.kind != InstrKind::Load || out_.info_of(n).domain != Domain::Full) continue;
      const std::size_t at = static_cast<std::size_t>(n);
      if (live_[at] && out_.program().slots[static_cast<std::size_t>(self.slot)].written)
        needed[at] = true;
    }
  }

  // Leaves of `needed` only what this phase computes and the kept values that directly feed it.
  void stop_at_done(std::vector<bool>& needed, const std::vector<bool>& done, int phase) const {
    std::vector<bool> direct(needed.size());
    for (std::size_t n = needed.size(); n-- > 0;) {
      const Instr& self = out_.program().instrs[n];
      const bool ends =
          self.kind == InstrKind::Reduce || self.kind == InstrKind::Store ||
          (self.kind == InstrKind::Bounded && out_.analysis().instrs[n].phase == phase);
      needed[n] = needed[n] && (direct[n] || ends);
      if (!needed[n] || done[n]) continue;
      for (const int operand : {self.a, self.b, self.c}) {
        if (operand >= 0) direct[static_cast<std::size_t>(operand)] = true;
      }
    }
  }

  // OpenCL declares local memory at the top of a kernel.
  void print_scratch() {
    bool position = false;
    std::vector<bool> declared(kDTypeCount);
    for (const Phase& phase : phases_) {
      for (const int n : phase.reduces) {
        const DType dtype = out_.instr(out_.instr(n).a).dtype;
        position |= is_arg_reduce(out_.instr(n).reduce);
        if (declared[static_cast<std::size_t>(dtype)]) continue;
        declared[static_cast<std::size_t>(dtype)] = true;
        out_.line("__local {0} scratch_{0}[{1}];", Printer::type(dtype), threads_);
      }
    }
    if (position) out_.line("__local index_t scratch_position[{}];", threads_);
  }

  void print_point() {
    const std::string points = out_.extent_product(Role::Par, "uindex_t");
    if (lanes_ == 1) {
      out_.line("const uindex_t par = (uindex_t)block * {} + thread;", threads_);
      out_.line("if (par >= {}) return;", points);
    } else if (lanes_ < threads_) {
      out_.line("const index_t lane = thread % {};", lanes_);
      out_.line("const uindex_t row = (uindex_t)block * {} + thread / {};", threads_ / lanes_,
                lanes_);
      // Every thread takes part in the exchanges, so those past the end stay, on point 0 with an
      // empty row.
      out_.line("const bool active = row < {};", points);
      out_.line("const uindex_t par = active ? row : 0;");
    } else {
      out_.line("const index_t lane = thread;");
      out_.line("const uindex_t par = block;");
    }
    out_.digits("par", 0, reds_);
    if (lanes_ > 1) {
      const std::string length = out_.extent_product(Role::Red, "index_t");
      out_.line("const index_t length = {};",
                lanes_ < threads_ ? fmt::format("active ? {} : 0", length) : length);
    }
  }

  std::string par_guard(int n) const {
    std::string guard;
    if (lanes_ > 1) guard = lanes_ < threads_ ? "active && lane == 0" : "lane == 0";
    if (out_.instr(n).once || out_.info_of(n).domain == Domain::Uniform) {
      guard += guard.empty() ? "par == 0" : " && par == 0";
    }
    return guard;
  }

  // Instructions of Par points, once per thread; lane 0 stores.
  void print_par_values(int phase) {
    for (int n = 0; n < out_.instr_count(); ++n) {
      const Instr& self = out_.instr(n);
      const InstrInfo& known = out_.info_of(n);
      if (!live_[static_cast<std::size_t>(n)] || known.domain == Domain::Full ||
          known.phase != phase)
        continue;
      if (self.kind == InstrKind::Reduce) continue;
      if (self.kind != InstrKind::Store) {
        out_.define(n);
        continue;
      }
      // The other lanes must have read what lane 0 overwrites.
      const bool updates = out_.program().slots[static_cast<std::size_t>(self.slot)].read;
      if (updates && lanes_ > 1) out_.line("BARRIER;");
      out_.store(n, par_guard(n));
    }
  }

  void print_row_values(int phase) {
    const Phase& plan = phases_[static_cast<std::size_t>(phase)];
    if (plan.compute.empty() && plan.loads.empty()) return;
    bool position = false;
    for (const int n : plan.reduces) {
      const Instr& self = out_.instr(n);
      const DType dtype = out_.instr(self.a).dtype;
      out_.line("{} a{} = {};", Printer::type(dtype), n, identity(self.reduce, dtype));
      if (!is_arg_reduce(self.reduce)) continue;
      position = true;
      out_.line("index_t i{} = NO_POSITION;", n);
    }
    if (lanes_ == 1) {
      print_serial_loops(plan, position);
    } else {
      print_shared_loop(plan);
    }
  }

  // Nested loops over the Red axes, no division.
  void print_serial_loops(const Phase& plan, bool position) {
    if (position) out_.line("index_t r{} = 0;", loops_);
    const std::string counter = fmt::format("r{}", loops_++);
    for (int axis = reds_; axis < axes_; ++axis) {
      const std::string name = fmt::format("x{}", axis);
      if (axis == axes_ - 1) out_.raw("#pragma unroll 4");
      out_.open(fmt::format("for (index_t {0} = 0; {0} < {1}; ++{0})", name, out_.extent(axis)));
      out_.name_axis(axis, name);
    }
    std::string first = "par == 0";
    for (int axis = reds_; axis < axes_; ++axis) first += fmt::format(" && x{} == 0", axis);
    print_elements(plan, counter, first);
    if (position) out_.line("++{};", counter);
    for (int axis = reds_; axis < axes_; ++axis) out_.close();
  }

  // The lanes stride over the linearised Red axes together.
  void print_shared_loop(const Phase& plan) {
    if (items_ > 0) {
      if (!plan.loads.empty()) print_item_loads(plan);
      open_items();
      out_.line("if (r >= length) continue;");
      out_.digits("(uindex_t)r", reds_, axes_);
      for (const std::vector<int>* kept : {&plan.fetch, &plan.loads}) {
        for (const int n : *kept) {
          out_.line("const {} {} = k{}[k];", Printer::type(out_.instr(n).dtype), out_.value(n), n);
        }
      }
      print_elements(plan, "r", "par == 0 && r == 0");
      out_.close();
      return;
    }
    const std::vector<int> axes = long_reds();
    if (axes.size() > 1) print_first_digits(axes);
    out_.raw("#pragma unroll 4");
    out_.open(fmt::format("for (index_t r = lane; r < length; r += {})", lanes_));
    if (axes.size() == 1) out_.digits("(uindex_t)r", reds_, axes_);
    print_elements(plan, "r", "par == 0 && r == 0");
    if (axes.size() > 1) print_next_digits(axes);
    out_.close();
    if (axes.size() > 1) out_.close();
  }

  void open_items() {
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int k = 0; k < {}; ++k)", items_));
    out_.line("const index_t r = lane + k * {};", lanes_);
  }

  void print_item_loads(const Phase& plan) {
    open_items();
    // Where digits need divisions they stay behind the guard: an extent may be 0.
    const bool divides = long_reds().size() > 1;
    if (divides) out_.open("if (r < length)");
    out_.digits("(uindex_t)r", reds_, axes_);
    for (const int n : plan.loads) {
      const std::string element = out_.expression(n);
      if (divides) {
        out_.line("k{}[k] = {};", n, element);
      } else {
        out_.line("k{}[k] = r < length ? {} : {};", n, element,
                  Printer::constant(0, out_.instr(n).dtype));
      }
    }
    if (divides) out_.close();
    out_.close();
  }

  // The Red axes that have more than one point.
  std::vector<int> long_reds() const {
    std::vector<int> axes;
    for (int axis = reds_; axis < axes_; ++axis) {
      if (out_.extent(axis) != "1") axes.push_back(axis);
    }
    return axes;
  }

  // Several Red axes: the digits of the thread's first element and those of the stride between its
  // elements, so that the loop adds and carries instead of dividing.
  void print_first_digits(const std::vector<int>& axes) {
    out_.open("");
    std::string element = "(uindex_t)lane", stride = fmt::format("(uindex_t){}", lanes_);
    for (std::size_t n = axes.size(); n-- > 0;) {
      const int axis = axes[n];
      out_.name_axis(axis, fmt::format("x{}", axis));
      if (n == 0) {
        out_.line("index_t x{} = (index_t)({});", axis, element);
        out_.line("const index_t d{} = (index_t)({});", axis, stride);
        break;
      }
      // A row may be empty; then nothing of this is used.
      out_.line("const uindex_t e{0} = {1} > 0 ? (uindex_t){1} : 1;", axis, out_.extent(axis));
      out_.line("index_t x{0} = (index_t)(({1}) % e{0});", axis, element);
      out_.line("const index_t d{0} = (index_t)(({1}) % e{0});", axis, stride);
      element = fmt::format("({}) / e{}", element, axis);
      stride = fmt::format("({}) / e{}", stride, axis);
    }
  }

  void print_next_digits(const std::vector<int>& axes) {
    for (std::size_t n = axes.size(); n-- > 0;) {
      const int axis = axes[n];
      out_.line("x{0} += d{0};", axis);
      if (n == 0) break;
      out_.open(fmt::format("if (x{} >= {})", axis, out_.extent(axis)));
      out_.line("x{} -= {};", axis, out_.extent(axis));
      out_.line("++x{};", axes[n - 1]);
      out_.close();
    }
  }

  void print_elements(const Phase& plan, const std::string& position, const std::string& first) {
    for (const int n : plan.compute) {
      const Instr& self = out_.instr(n);
      if (self.kind == InstrKind::Reduce) {
        accumulate(n, position);
      } else if (self.kind == InstrKind::Store) {
        out_.store(n, self.once ? first : "");
      } else {
        out_.define(n);
        if (kept_[static_cast<std::size_t>(n)]) out_.line("k{}[k] = {};", n, out_.value(n));
      }
    }
  }

  void accumulate(int n, const std::string& position) {
    combine(n, fmt::format("a{}", n), fmt::format("i{}", n), out_.value(out_.instr(n).a), position);
  }

  // (into, into_position) = the better or the sum of itself and (value, position)
  void combine(int n, const std::string& into, const std::string& into_position,
               const std::string& value, const std::string& position) {
    const Instr& self = out_.instr(n);
    const DType dtype = out_.instr(self.a).dtype;
    if (!is_arg_reduce(self.reduce)) {
      out_.line("{0} = {1}({0}, {2});", into,
                Printer::op_function(combining_op(self.reduce), dtype), value);
      return;
    }
    const char* better = self.reduce == ReduceOp::ArgMax ? "higher" : "lower";
    out_.open(fmt::format("if ({}_{}({}, {}, {}, {}))", better, Printer::type(dtype), value,
                          position, into, into_position));
    out_.line("{} = {};", into, value);
    out_.line("{} = {};", into_position, position);
    out_.close();
  }

  void print_combination(int phase) {
    const std::vector<int>& reduces = phases_[static_cast<std::size_t>(phase)].reduces;
    if (reduces.empty()) return;
    if (lanes_ > 1 && cuda_) {
      for (const int n : reduces) butterfly(n, std::min(lanes_, 32));
      if (lanes_ > 32) combine_warps(reduces);
    }
    for (const int n : reduces) {
      if (lanes_ > 1 && !cuda_) combine_in_local_memory(n);
      const Instr& self = out_.instr(n);
      if (is_arg_reduce(self.reduce)) {
        out_.line("const i64 {0} = i{1} == NO_POSITION ? 0 : (i64)i{1};", out_.value(n), n);
      } else {
        out_.line("const {} {} = a{};", Printer::type(self.dtype), out_.value(n), n);
      }
    }
  }

  // CUDA: the lanes of a warp exchange until each has the result.
  void butterfly(int n, int width) {
    const Instr& self = out_.instr(n);
    const DType dtype = out_.instr(self.a).dtype;
    out_.raw("#pragma unroll");
    out_.open(fmt::format("for (int m = {}; m > 0; m >>= 1)", width / 2));
    out_.line("const {0} o = ({0})__shfl_xor_sync(0xffffffffu, a{1}, m);", Printer::type(dtype), n);
    if (is_arg_reduce(self.reduce))
      out_.line("const index_t p = __shfl_xor_sync(0xffffffffu, i{}, m);", n);
    combine(n, fmt::format("a{}", n), fmt::format("i{}", n), "o", "p");
    out_.close();
  }

  // CUDA: each warp leaves its result in shared memory; every warp combines them all. The arrays
  // are not used again, so that one barrier per phase is enough.
  void combine_warps(const std::vector<int>& reduces) {
    const int warps = lanes_ / 32;
    for (const int n : reduces) {
      const Instr& self = out_.instr(n);
      out_.line("__shared__ {} b{}[{}];", Printer::type(out_.instr(self.a).dtype), n, warps);
      out_.line("if (thread % 32 == 0) b{0}[thread / 32] = a{0};", n);
      if (!is_arg_reduce(self.reduce)) continue;
      out_.line("__shared__ index_t j{}[{}];", n, warps);
      out_.line("if (thread % 32 == 0) j{0}[thread / 32] = i{0};", n);
    }
    out_.line("BARRIER;");
    for (const int n : reduces) {
      out_.line("a{0} = b{0}[thread % {1}];", n, warps);
      if (is_arg_reduce(out_.instr(n).reduce)) out_.line("i{0} = j{0}[thread % {1}];", n, warps);
      butterfly(n, warps);
    }
  }

  // OpenCL 1.2 has no exchange within a subgroup: a tree in local memory, one scratch array per
  // dtype.
  void combine_in_local_memory(int n) {
    const Instr& self = out_.instr(n);
    const DType dtype = out_.instr(self.a).dtype;
    const std::string scratch = "scratch_" + Printer::type(dtype);
    const bool arg = is_arg_reduce(self.reduce);
    out_.line("{}[thread] = a{};", scratch, n);
    if (arg) out_.line("scratch_position[thread] = i{};", n);
    out_.line("BARRIER;");
    out_.open(fmt::format("for (int m = {}; m > 0; m >>= 1)", lanes_ / 2));
    out_.open("if (lane < m)");
    combine(n, scratch + "[thread]", "scratch_position[thread]", scratch + "[thread + m]",
            "scratch_position[thread + m]");
    out_.close();
    out_.line("BARRIER;");
    out_.close();
    out_.line("a{} = {}[thread - lane];", n, scratch);
    if (arg) out_.line("i{} = scratch_position[thread - lane];", n);
    out_.line("BARRIER;");
  }

  Printer& out_;
  const bool cuda_;
  const int lanes_, items_, threads_, axes_;
  const std::vector<bool> live_;
  int reds_ = 0;   // the first Red axis
  int loops_ = 0;  // serial loops printed so far
  std::vector<Phase> phases_;
  std::vector<bool> kept_;
};

}  // namespace

void print_row(Printer& printer, Dialect dialect) { RowPrinter(printer, dialect).print(); }

}  // namespace volta::kernel
