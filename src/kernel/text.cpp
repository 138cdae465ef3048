// The canonical text of a program: all fields that matter and nothing else.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <iterator>
#include <string_view>

#include "kernel/program.h"

namespace volta::kernel {
namespace {

constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin"};

// Appends to a text. Texts are keys of every plan's kernels, so numbers are written without a
// format string.
class TextWriter {
 public:
  TextWriter(const Program& program, const Schedule& schedule)
      : program_(program), schedule_(schedule) {
    text_.reserve(64 + 32 * program.instrs.size());
  }

  std::string write() {
    put(to_text(schedule_), "\n");
    for (std::size_t n = 0; n < program_.slots.size(); ++n) {
      const Slot& slot = program_.slots[n];
      put("slot ", n, " ", name_of(slot.dtype), slot.read ? " read" : "",
          slot.written ? " written\n" : "\n");
    }
    for (std::size_t n = 0; n < program_.args.size(); ++n)
      put("arg ", n, " ", name_of(program_.args[n]), "\n");
    put("ints ", program_.int_params, "\n");
    for (std::size_t n = 0; n < program_.axes.size(); ++n) {
      const Axis& axis = program_.axes[n];
      put("axis ", n, axis.role == Role::Par ? " par " : " red ", axis.extent);
      if (axis.bound >= 0) put(" up to %", axis.bound);
      put("\n");
    }
    for (std::size_t n = 0; n < program_.instrs.size(); ++n) instr(n, program_.instrs[n]);
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void put(const Parts&... parts) {
    (append(parts), ...);
  }
  void append(std::string_view text) { text_ += text; }
  template <std::integral Number>
  void append(Number number) {
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    text_.append(digits, end);
  }
  void append(Int number) {
    if (number.is_param) text_ += '$';
    append(number.value);
  }
  void append(const Affine& affine) {
    for (const Term& term : affine.terms) put("x", term.axis, "*", term.coefficient, "+");
    append(affine.offset);
  }

  // All NaNs are one constant, whatever their sign or payload.
  static std::string constant(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:a}", value);
  }

  void mask(const Instr& instr) {
    for (const Bound& bound : instr.mask) put(" where ", bound.expression, " < ", bound.high);
  }

  void instr(std::size_t n, const Instr& instr) {
    if (instr.kind != InstrKind::Store) put("%", n, " ", name_of(instr.dtype), " = ");
    switch (instr.kind) {
      case InstrKind::Const:
        put("const ", constant(instr.constant));
        break;
      case InstrKind::Arg:
        put("arg ", instr.slot);
        break;
      case InstrKind::Index:
        put("index ", instr.index);
        break;
      case InstrKind::Op:
        put(info(instr.op).name, " %", instr.a);
        if (instr.b >= 0) put(" %", instr.b);
        if (instr.c >= 0) put(" %", instr.c);
        break;
      case InstrKind::Cast:
        put("cast %", instr.a);
        break;
      case InstrKind::Load:
        put("load ", instr.slot, " [", instr.index);
        if (instr.a >= 0) put(" + %", instr.a, "*", instr.value_stride);
        put("]");
        mask(instr);
        if (!instr.mask.empty()) put(" else ", constant(instr.constant));
        break;
      case InstrKind::Bounded:
        put("bounded %", instr.a, " < ", instr.high, " site ", instr.site);
        break;
      case InstrKind::Search:
        put("search %", instr.a, " in ", instr.slot, " [", instr.index, " + i*", instr.value_stride,
            "] i < ", instr.high);
        break;
      case InstrKind::Philox:
        put("philox %", instr.a, " %", instr.b, " at ", instr.index);
        break;
      case InstrKind::Reduce:
        put(kReduceNames[static_cast<int>(instr.reduce)], " %", instr.a);
        break;
      case InstrKind::Scan:
        put(instr.reverse ? "scan back %" : "scan %", instr.a);
        if (instr.b >= 0) put(" from %", instr.b);
        break;
      case InstrKind::Store:
        put(instr.once ? "store once " : "store ", instr.slot, " [", instr.index, "] = %", instr.a);
        mask(instr);
        break;
    }
    put("\n");
  }

  const Program& program_;
  const Schedule& schedule_;
  std::string text_;
};

}  // namespace

std::string to_text(const Program& program) { return to_text(program, program.schedule); }

std::string to_text(const Program& program, const Schedule& schedule) {
  return TextWriter(program, schedule).write();
}

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
