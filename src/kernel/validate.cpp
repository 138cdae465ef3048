// Checks every invariant of the kernel language that can be seen in a program alone. A violation is
// a bug of the planner, so messages contain the program's text.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "kernel/dependence.h"
#include "kernel/program.h"
#include "kernel/vectors.h"
#include "volta/error.h"

namespace volta::kernel {
namespace {

constexpr std::size_t at(int n) { return static_cast<std::size_t>(n); }

bool same_index(const Affine& a, const Affine& b) {
  return a.offset == b.offset && std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(),
                                            b.terms.end(), [](const Term& x, const Term& y) {
                                              return x.axis == y.axis &&
                                                     x.coefficient == y.coefficient;
                                            });
}

bool is_storage_only(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program) {}

  void run() {
    schedule();
    axes();
    for (n_ = 0; n_ < static_cast<int>(program_.instrs.size()); ++n_)
      instr(program_.instrs[at(n_)]);
    n_ = -1;
    dependence_ = axis_dependence(program_);
    for (int slot = 0; slot < static_cast<int>(program_.slots.size()); ++slot) check_slot(slot);
    for (const Axis& axis : program_.axes) check_bound(axis);
  }

 private:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    const std::string where = n_ < 0 ? "" : fmt::format("instruction %{}: ", n_);
    throw BackendError(fmt::format("kernel program: {}{}\n{}", where,
                                   fmt::format(format, std::forward<Args>(args)...),
                                   to_text(program_)));
  }

  void schedule() const {
    const Schedule& s = program_.schedule;
    require(s.vec >= 1 && s.vec <= 16 && std::has_single_bit(static_cast<unsigned>(s.vec)),
            "vec must be 1, 2, 4, 8 or 16, not {}", s.vec);
    require(s.lanes >= 1 && s.lanes <= 1024 && std::has_single_bit(static_cast<unsigned>(s.lanes)),
            "lanes must be a power of two up to 1024, not {}", s.lanes);
    require(s.items >= 0 && s.items <= 128, "items must be 0 ... 128, not {}", s.items);
    require(s.items == 0 || s.lanes > 1, "items need lanes > 1");
    require(s.threads == 0 || (s.threads >= 32 && s.threads <= 1024 &&
                               std::has_single_bit(static_cast<unsigned>(s.threads))),
            "threads must be a power of two from 32 to 1024, not {}", s.threads);
    require(s.threads == 0 || s.lanes <= 32, "a row with {} lanes has as many threads", s.lanes);
    if (s.kind == ScheduleKind::Map) {
      require(s.lanes == 1 && !s.peeled, "a Map has one lane and nothing peeled");
      require(s.vec == 1 || !program_.axes.empty(), "vec > 1 needs an axis");
      tile();
    } else {
      require(s.vec == 1 || vector_axis(program_) >= 0, "vec > 1 needs an axis to run along");
      require(s.items % s.vec == 0, "items {} is not a multiple of vec {}", s.items, s.vec);
      require(s.whole >= 0 && s.whole <= s.items && s.whole % s.vec == 0,
              "whole {} is no part of items {} in groups of {}", s.whole, s.items, s.vec);
      require(s.whole == 0 || s.lanes > 32, "whole items need a block to each row");
      require(s.tile == 0, "a Row has no tile");
      if (s.peeled) peeled();
    }
  }

  void peeled() const {
    const Schedule& s = program_.schedule;
    require(s.vec > 1, "peeled rows need vectors");
    require(s.lanes >= 2 * s.vec, "{} lanes are too few for both ends of a row in groups of {}",
            s.lanes, s.vec);
    require(!peeled_accesses(program_).empty(), "no access says where peeled rows start");
  }

  void tile() const {
    const Schedule& s = program_.schedule;
    if (s.tile == 0) return require(s.tile_axis == -1, "a tile axis without a tile");
    require(s.tile == 32 || s.tile == 64, "tile must be 32 or 64, not {}", s.tile);
    require(s.vec > 1, "a tile needs vec > 1");
    require(s.tile_axis >= 0 && s.tile_axis < static_cast<int>(program_.axes.size()) - 1,
            "tile axis {} of {}", s.tile_axis, program_.axes.size());
  }

  void axes() const {
    require(program_.int_params >= 0, "int_params is negative");
    require(program_.axes.size() <= 32, "at most 32 axes, not {}", program_.axes.size());
    bool seen_red = false;
    for (const Axis& axis : program_.axes) {
      number(axis.extent);
      require(axis.extent.is_param || axis.extent.value >= 0, "an extent is negative");
      require(axis.role == Role::Red || !seen_red, "a Par axis follows a Red axis");
      seen_red |= axis.role == Role::Red;
    }
    const bool map = program_.schedule.kind == ScheduleKind::Map;
    require(!map || !seen_red, "a Map has no Red axes");
    require(map || seen_red, "a Row needs a Red axis");
  }

  void number(Int value) const {
    require(!value.is_param || (value.value >= 0 && value.value < program_.int_params),
            "integer parameter {} of {}", value.value, program_.int_params);
  }

  void affine(const Affine& value) const {
    number(value.offset);
    int last = -1;
    for (const Term& term : value.terms) {
      require(term.axis >= 0 && term.axis < static_cast<int>(program_.axes.size()), "axis {} of {}",
              term.axis, program_.axes.size());
      require(term.axis > last, "axes of an index must increase");
      last = term.axis;
      number(term.coefficient);
    }
  }

  void operands(const Instr& instr, int count) const {
    const int all[] = {instr.a, instr.b, instr.c};
    for (int k = 0; k < 3; ++k) {
      if (k < count) {
        require(all[k] >= 0 && all[k] < n_, "operand %{} does not precede its use", all[k]);
        require(program_.instrs[at(all[k])].kind != InstrKind::Store, "operand %{} is a Store",
                all[k]);
      } else {
        require(all[k] == -1, "takes {} operand(s)", count);
      }
    }
  }

  DType dtype(int operand) const { return program_.instrs[at(operand)].dtype; }

  void slot(const Instr& instr) const {
    require(instr.slot >= 0 && instr.slot < static_cast<int>(program_.slots.size()),
            "slot {} of {}", instr.slot, program_.slots.size());
    affine(instr.index);
    for (const Bound& bound : instr.mask) {
      affine(bound.expression);
      number(bound.high);
    }
  }

  void constant(const Instr& instr) const {
    require(is_floating(instr.dtype) || std::fabs(instr.constant) <= 0x1p53,
            "integer constant {} is beyond 2^53", instr.constant);
  }

  void op(const Instr& instr) const {
    const ScalarOpInfo& row = info(instr.op);
    operands(instr, row.arity);
    int first = instr.a;
    if (instr.op == ScalarOp::where) {
      require(dtype(instr.a) == DType::boolean, "where: condition is {}, not bool",
              name_of(dtype(instr.a)));
      first = instr.b;
    }
    for (const int operand : {instr.b, instr.c}) {
      require(operand < 0 || dtype(operand) == dtype(first), "{}: operands are {} and {}", row.name,
              name_of(dtype(first)), name_of(dtype(std::max(operand, 0))));
    }
    const DType result = row.result == ScalarResult::Bool ? DType::boolean : dtype(first);
    require(instr.dtype == result, "{}: result is {}, not {}", row.name, name_of(instr.dtype),
            name_of(result));
    require(!is_storage_only(dtype(first)), "{}: {} is for storage only", row.name,
            name_of(dtype(first)));
    const char* expression =
        is_floating(dtype(first)) ? row.float_expression : row.integer_expression;
    require(*expression != '\0', "{} does not exist for {}", row.name, name_of(dtype(first)));
  }

  void load(const Instr& instr) const {
    slot(instr);
    operands(instr, instr.a >= 0 ? 1 : 0);
    require(instr.dtype == program_.slots[at(instr.slot)].dtype, "loads {} from a slot of {}",
            name_of(instr.dtype), name_of(program_.slots[at(instr.slot)].dtype));
    constant(instr);
    if (instr.a < 0) return;
    require(program_.instrs[at(instr.a)].kind == InstrKind::Bounded,
            "the value index %{} is not Bounded", instr.a);
    number(instr.value_stride);
  }

  void reduce(const Instr& instr) const {
    operands(instr, 1);
    require(program_.schedule.kind == ScheduleKind::Row, "a Map has no Reduce");
    const bool arg = instr.reduce == ReduceOp::ArgMax || instr.reduce == ReduceOp::ArgMin;
    const DType result = arg ? DType::i64 : dtype(instr.a);
    require(instr.dtype == result, "reduces to {}, not {}", name_of(result), name_of(instr.dtype));
    require(!is_storage_only(dtype(instr.a)), "reduces {}, which is for storage only",
            name_of(dtype(instr.a)));
  }

  void instr(const Instr& instr) const {
    switch (instr.kind) {
      case InstrKind::Const:
        operands(instr, 0);
        constant(instr);
        break;
      case InstrKind::Arg:
        operands(instr, 0);
        require(instr.slot >= 0 && instr.slot < static_cast<int>(program_.args.size()),
                "argument {} of {}", instr.slot, program_.args.size());
        require(instr.dtype == program_.args[at(instr.slot)], "argument {} is {}, not {}",
                instr.slot, name_of(program_.args[at(instr.slot)]), name_of(instr.dtype));
        break;
      case InstrKind::Index:
        operands(instr, 0);
        affine(instr.index);
        require(instr.dtype == DType::i32 || instr.dtype == DType::i64,
                "an Index is i32 or i64, not {}", name_of(instr.dtype));
        break;
      case InstrKind::Op:
        op(instr);
        break;
      case InstrKind::Cast:
        operands(instr, 1);
        break;
      case InstrKind::Load:
        load(instr);
        break;
      case InstrKind::Bounded:
        operands(instr, 1);
        number(instr.high);
        number(instr.site);
        require(dtype(instr.a) == DType::i32 || dtype(instr.a) == DType::i64,
                "bounds {}, not i32 or i64", name_of(dtype(instr.a)));
        require(instr.dtype == dtype(instr.a), "bounds {} to {}", name_of(dtype(instr.a)),
                name_of(instr.dtype));
        break;
      case InstrKind::Search:
        search(instr);
        break;
      case InstrKind::Philox:
        operands(instr, 2);
        affine(instr.index);
        require(dtype(instr.a) == DType::i64 && dtype(instr.b) == DType::i64,
                "Philox takes i64 seed and offset");
        require(instr.dtype == DType::i64 || instr.dtype == DType::f32 || instr.dtype == DType::f64,
                "Philox gives i64, f32 or f64, not {}", name_of(instr.dtype));
        break;
      case InstrKind::Reduce:
        reduce(instr);
        break;
      case InstrKind::Scan:
        scan(instr);
        break;
      case InstrKind::Store:
        slot(instr);
        operands(instr, 1);
        require(dtype(instr.a) == program_.slots[at(instr.slot)].dtype, "stores {} to a slot of {}",
                name_of(dtype(instr.a)), name_of(program_.slots[at(instr.slot)].dtype));
        break;
    }
  }

  void search(const Instr& instr) const {
    slot(instr);
    operands(instr, 1);
    number(instr.value_stride);
    number(instr.high);
    require(dtype(instr.a) == program_.slots[at(instr.slot)].dtype, "searches a slot of {} for {}",
            name_of(program_.slots[at(instr.slot)].dtype), name_of(dtype(instr.a)));
    require(dtype(instr.a) == DType::i32 || dtype(instr.a) == DType::i64,
            "searches for {}, not i32 or i64", name_of(dtype(instr.a)));
    require(instr.dtype == DType::i32, "Search gives i32, not {}", name_of(instr.dtype));
    require(instr.mask.empty(), "Search has no mask");
    require(!program_.slots[at(instr.slot)].written, "searches slot {}, which is written",
            instr.slot);
  }

  void scan(const Instr& instr) const {
    operands(instr, instr.b >= 0 ? 2 : 1);
    require(program_.schedule.kind == ScheduleKind::Row && program_.schedule.items == 0 &&
                program_.schedule.vec == 1,
            "a Scan is for a Row without items, one element at a time");
    require(std::none_of(program_.axes.begin(), program_.axes.end(),
                         [](const Axis& axis) { return axis.bound >= 0; }),
            "a Scan has no bound");
    require(instr.dtype == dtype(instr.a), "scans {} to {}", name_of(dtype(instr.a)),
            name_of(instr.dtype));
    require(!is_storage_only(instr.dtype) && instr.dtype != DType::boolean, "scans {}",
            name_of(instr.dtype));
    require(instr.b < 0 || dtype(instr.b) == instr.dtype, "a Scan of {} starts from {}",
            name_of(instr.dtype), name_of(dtype(std::max(instr.b, 0))));
    require(instr.b < 0 || analyze(program_).instrs[at(instr.b)].domain != Domain::Full,
            "a Scan starts from a row value");
    for (const Instr& other : program_.instrs) {
      require(other.kind != InstrKind::Scan || other.reverse == instr.reverse,
              "Scans go both ways");
    }
  }

  // A bound must be known before the loop that it ends.
  void check_bound(const Axis& axis) const {
    if (axis.bound < 0) return;
    require(axis.role == Role::Red && program_.schedule.lanes == 1 && program_.schedule.vec == 1 &&
                std::count_if(program_.axes.begin(), program_.axes.end(),
                              [](const Axis& a) { return a.role == Role::Red; }) == 1,
            "a bound is for the one Red axis of a Row with one lane");
    require(axis.bound < static_cast<int>(program_.instrs.size()) &&
                program_.instrs[at(axis.bound)].kind != InstrKind::Store,
            "the bound %{} is no value", axis.bound);
    require(dtype(axis.bound) == DType::i32 || dtype(axis.bound) == DType::i64,
            "the bound %{} is {}, not i32 or i64", axis.bound, name_of(dtype(axis.bound)));
    const InstrInfo known = analyze(program_).instrs[at(axis.bound)];
    require(known.domain != Domain::Full && known.phase == 0,
            "the bound %{} is not known before the rows", axis.bound);
  }

  void check_slot(int slot) const {
    int store = -1;
    bool read = false;
    for (int n = 0; n < static_cast<int>(program_.instrs.size()); ++n) {
      const Instr& instr = program_.instrs[at(n)];
      if (instr.slot != slot) continue;
      if (instr.kind == InstrKind::Load || instr.kind == InstrKind::Search) read = true;
      if (instr.kind != InstrKind::Store) continue;
      require(store < 0, "slot {} has more than one Store", slot);
      store = n;
    }
    const Slot& flags = program_.slots[at(slot)];
    require(flags.read == read, "slot {} is {}marked as read", slot, read ? "not " : "");
    require(flags.written == (store >= 0), "slot {} is {}marked as written", slot,
            store >= 0 ? "not " : "");
    if (store < 0) return;
    injective(slot, store);
    if (read) in_place(slot, store);
  }

  // Every axis over which the stored value varies must be in the index, so that no two points write
  // the same element. A mask may select one point of an axis; there the planner is trusted.
  void injective(int slot, int store) const {
    const Instr& instr = program_.instrs[at(store)];
    if (instr.once || !instr.mask.empty()) return;
    const std::uint64_t missing = axes_of_value(store) & ~axes_of_index(store);
    require(missing == 0,
            "the Store to slot {} does not index axis {}, which its value varies over", slot,
            std::countr_zero(missing));
  }

  std::uint64_t axes_of_value(int store) const {
    return dependence_[at(program_.instrs[at(store)].a)];
  }

  std::uint64_t axes_of_index(int store) const {
    std::uint64_t axes = unit_axes(program_);
    for (const Term& term : program_.instrs[at(store)].index.terms) {
      if (!term.coefficient.is_literal(0)) axes |= std::uint64_t{1} << term.axis;
    }
    return axes;
  }

  void in_place(int slot, int store) const {
    const Instr& writer = program_.instrs[at(store)];
    for (int n = 0; n < static_cast<int>(program_.instrs.size()); ++n) {
      const Instr& reader = program_.instrs[at(n)];
      if (reader.kind != InstrKind::Load || reader.slot != slot) continue;
      require(reader.a < 0 && same_index(reader.index, writer.index),
              "slot {} is updated in place, but %{} reads another element than %{} writes", slot, n,
              store);
      require(n < store, "slot {} is updated in place, but %{} reads it after its Store", slot, n);
    }
    // Otherwise another point could read the element after this one has written it.
    std::uint64_t par = 0;
    for (std::size_t n = 0; n < program_.axes.size(); ++n) {
      if (program_.axes[n].role == Role::Par) par |= std::uint64_t{1} << n;
    }
    require(
        (par & ~axes_of_index(store)) == 0 && (!writer.once || (par & ~unit_axes(program_)) == 0),
        "slot {} is updated in place by fewer points than read it", slot);
    if (program_.schedule.kind == ScheduleKind::Row && program_.schedule.items == 0)
      reevaluation(slot, store);
  }

  // Without `items`, a later phase evaluates the Loads of its row values again.
  void reevaluation(int slot, int store) const {
    const Analysis analysis = analyze(program_);
    for (int phase = analysis.instrs[at(store)].phase + 1; phase < analysis.phases; ++phase) {
      const std::vector<bool> needed = row_values_of_phase(program_, analysis, phase);
      for (int n = 0; n < store; ++n) {
        const Instr& reader = program_.instrs[at(n)];
        require(!needed[at(n)] || reader.kind != InstrKind::Load || reader.slot != slot,
                "slot {} is updated in phase {} and its Load %{} evaluated again in phase {}", slot,
                analysis.instrs[at(store)].phase, n, phase);
      }
    }
  }

  const Program& program_;
  int n_ = -1;  // the instruction being checked
  std::vector<std::uint64_t> dependence_;
};

}  // namespace

void validate(const Program& program) { Validator(program).run(); }

}  // namespace volta::kernel
