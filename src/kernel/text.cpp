// The canonical text of a program: all fields that matter and nothing else.
#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "kernel/program.h"

namespace volta::kernel {
namespace {

constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin"};

class TextWriter {
 public:
  explicit TextWriter(const Program& program) : program_(program) {}

  std::string write() {
    schedule();
    for (std::size_t n = 0; n < program_.slots.size(); ++n) {
      const Slot& slot = program_.slots[n];
      put("slot {} {}{}{}\n", n, name_of(slot.dtype), slot.read ? " read" : "",
          slot.written ? " written" : "");
    }
    for (std::size_t n = 0; n < program_.args.size(); ++n)
      put("arg {} {}\n", n, name_of(program_.args[n]));
    put("ints {}\n", program_.int_params);
    for (std::size_t n = 0; n < program_.axes.size(); ++n) {
      const Axis& axis = program_.axes[n];
      put("axis {} {} {}", n, axis.role == Role::Par ? "par" : "red", number(axis.extent));
      if (axis.bound >= 0) put(" up to %{}", axis.bound);
      put("\n");
    }
    for (std::size_t n = 0; n < program_.instrs.size(); ++n) instr(n, program_.instrs[n]);
    return std::move(text_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  static std::string number(Int value) {
    return fmt::format("{}{}", value.is_param ? "$" : "", value.value);
  }

  // All NaNs are one constant, whatever their sign or payload.
  static std::string constant(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:a}", value);
  }

  static std::string affine(const Affine& value) {
    std::string text;
    for (const Term& term : value.terms)
      text += fmt::format("x{}*{}+", term.axis, number(term.coefficient));
    return text + number(value.offset);
  }

  void schedule() { put("{}\n", to_text(program_.schedule)); }

  void mask(const Instr& instr) {
    for (const Bound& bound : instr.mask) {
      put(" where {} < {}", affine(bound.expression), number(bound.high));
    }
  }

  void instr(std::size_t n, const Instr& instr) {
    if (instr.kind != InstrKind::Store) put("%{} {} = ", n, name_of(instr.dtype));
    switch (instr.kind) {
      case InstrKind::Const:
        put("const {}", constant(instr.constant));
        break;
      case InstrKind::Arg:
        put("arg {}", instr.slot);
        break;
      case InstrKind::Index:
        put("index {}", affine(instr.index));
        break;
      case InstrKind::Op:
        put("{} %{}", info(instr.op).name, instr.a);
        if (instr.b >= 0) put(" %{}", instr.b);
        if (instr.c >= 0) put(" %{}", instr.c);
        break;
      case InstrKind::Cast:
        put("cast %{}", instr.a);
        break;
      case InstrKind::Load:
        put("load {} [{}", instr.slot, affine(instr.index));
        if (instr.a >= 0) put(" + %{}*{}", instr.a, number(instr.value_stride));
        put("]");
        mask(instr);
        if (!instr.mask.empty()) put(" else {}", constant(instr.constant));
        break;
      case InstrKind::Bounded:
        put("bounded %{} < {} site {}", instr.a, number(instr.high), number(instr.site));
        break;
      case InstrKind::Search:
        put("search %{} in {} [{} + i*{}] i < {}", instr.a, instr.slot, affine(instr.index),
            number(instr.value_stride), number(instr.high));
        break;
      case InstrKind::Philox:
        put("philox %{} %{} at {}", instr.a, instr.b, affine(instr.index));
        break;
      case InstrKind::Reduce:
        put("{} %{}", kReduceNames[static_cast<int>(instr.reduce)], instr.a);
        break;
      case InstrKind::Scan:
        put("scan{} %{}", instr.reverse ? " back" : "", instr.a);
        if (instr.b >= 0) put(" from %{}", instr.b);
        break;
      case InstrKind::Store:
        put("store{} {} [{}] = %{}", instr.once ? " once" : "", instr.slot, affine(instr.index),
            instr.a);
        mask(instr);
        break;
    }
    put("\n");
  }

  const Program& program_;
  std::string text_;
};

}  // namespace

std::string to_text(const Program& program) { return TextWriter(program).write(); }

std::string to_text(const Schedule& s) {
  std::string text;
  const auto put = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  };
  if (s.kind == ScheduleKind::Map) {
    put("map vec {}", s.vec);
    if (s.tile > 0) put(" tile {} along {}", s.tile, s.tile_axis);
  } else {
    put("row lanes {} items {}", s.lanes, s.items);
    if (s.whole > 0) put(" whole {}", s.whole);
    if (s.vec > 1) put(" vec {}{}", s.vec, s.peeled ? " peeled" : "");
  }
  if (s.threads > 0) put(" threads {}", s.threads);
  if (s.index64) text += " index64";
  if (s.horizontal) text += " horizontal";
  return text;
}

}  // namespace volta::kernel
