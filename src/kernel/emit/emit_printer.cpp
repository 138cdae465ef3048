// Expressions of the C emitter.
#include "kernel/emit/emit_printer.h"

#include <cmath>
#include <stdexcept>

namespace volta::kernel {
namespace {

std::string float_constant(double value, DType dtype) {
  const bool f64 = dtype == DType::f64;
  if (!f64) value = static_cast<float>(value);
  if (std::isnan(value)) return f64 ? "F64_BITS(0x7ff8000000000000)" : "F32_BITS(0x7fc00000u)";
  if (std::isinf(value)) {
    if (f64) return value > 0 ? "F64_BITS(0x7ff0000000000000)" : "F64_BITS(0xfff0000000000000)";
    return value > 0 ? "F32_BITS(0x7f800000u)" : "F32_BITS(0xff800000u)";
  }
  std::string digits = f64 ? fmt::format("{:.17g}", value) : fmt::format("{:.9g}", value);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  if (!f64) digits += "f";
  return std::signbit(value) ? "(" + digits + ")" : digits;
}

}  // namespace

Printer::Printer(const Program& program)
    : program_(program), analysis_(analyze(program)), axis_names_(program.axes.size(), "0") {
  for (int n = 0; n < instr_count(); ++n) value_names_.push_back(fmt::format("v{}", n));
}

void Printer::raw(std::string_view text) {
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  text_ += text;
  text_ += '\n';
}

void Printer::open(std::string_view head) {
  raw(head.empty() ? std::string("{") : fmt::format("{} {{", head));
  ++depth_;
}

void Printer::close() {
  --depth_;
  raw("}");
}

std::string Printer::number(Int value) {
  if (value.is_param) return fmt::format("p{}", value.value);
  return value.value < 0 ? fmt::format("({})", value.value) : fmt::format("{}", value.value);
}

std::string Printer::affine(const Affine& affine) const {
  std::string text;
  const auto add = [&text](const std::string& term) { text += (text.empty() ? "" : " + ") + term; };
  for (const Term& term : affine.terms) {
    const std::string& name = axis_name(term.axis);
    if (name == "0" || term.coefficient.is_literal(0)) continue;
    add(term.coefficient.is_literal(1) ? name : name + " * " + number(term.coefficient));
  }
  if (!affine.offset.is_literal(0)) add(number(affine.offset));
  return text.empty() ? "0" : text;
}

std::string Printer::condition(const std::vector<Bound>& mask) const {
  std::string text;
  for (const Bound& bound : mask) {
    if (!text.empty()) text += " && ";
    text += fmt::format("in_range({}, {})", affine(bound.expression), number(bound.high));
  }
  return text;
}

std::string Printer::extent_product(Role role, std::string_view type) const {
  std::string text;
  for (int axis = 0; axis < static_cast<int>(program_.axes.size()); ++axis) {
    if (program_.axes[static_cast<std::size_t>(axis)].role != role || extent(axis) == "1") continue;
    text += fmt::format("{}({}){}", text.empty() ? "" : " * ", type, extent(axis));
  }
  return text.empty() ? "1" : text;
}

void Printer::digits(std::string from, int first, int last) {
  std::vector<int> axes;
  for (int axis = first; axis < last; ++axis) axes.push_back(axis);
  digits(std::move(from), axes);
}

void Printer::digits(std::string from, const std::vector<int>& axes) {
  std::vector<int> sized;
  for (const int axis : axes) {
    if (extent(axis) != "1") sized.push_back(axis);
  }
  for (std::size_t n = sized.size(); n-- > 0;) {
    const int axis = sized[n];
    name_axis(axis, fmt::format("x{}", axis));
    if (n == 0) {
      line("const index_t x{} = (index_t){};", axis, from);
      break;
    }
    const std::string quotient = fmt::format("q{}", axis);
    line("const uindex_t {} = {} / (uindex_t){};", quotient, from, extent(axis));
    line("const index_t x{} = (index_t)({} - {} * (uindex_t){});", axis, from, quotient,
         extent(axis));
    from = quotient;
  }
}

std::string Printer::constant(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f64:
      return float_constant(value, dtype);
    case DType::f16:
    case DType::bf16:
      return fmt::format("{}_from_f32({})", type(dtype), float_constant(value, DType::f32));
    case DType::boolean:
      return value != 0 ? "(b8)1" : "(b8)0";
    default:
      return fmt::format("({})({})", type(dtype), static_cast<std::int64_t>(value));
  }
}

std::string Printer::cast(const std::string& expression, DType from, DType to) {
  if (from == to) return expression;
  if (from == DType::f16 || from == DType::bf16) {
    return cast(fmt::format("f32_from_{}({})", type(from), expression), DType::f32, to);
  }
  switch (to) {
    case DType::f16:
    case DType::bf16:
      return fmt::format("{}_from_f32((f32){})", type(to), expression);
    case DType::boolean:
      return fmt::format("(b8)({} != 0)", expression);
    // Converting a negative float to unsigned is undefined in C; through i64 it wraps, on every
    // target.
    case DType::u8:
      return fmt::format("(u8){}{}", is_floating(from) ? "(i64)" : "", expression);
    default:
      return fmt::format("({}){}", type(to), expression);
  }
}

std::string Printer::element_index(const Instr& self) const {
  std::string index = affine(self.index);
  if (self.kind == InstrKind::Load && self.a >= 0)
    index += fmt::format(" + (index_t){} * {}", value(self.a), number(self.value_stride));
  return index;
}

std::string Printer::address(int n) const {
  return fmt::format("s{} + ({})", instr(n).slot, element_index(instr(n)));
}

void Printer::load_pack(int n, const std::string& to) {
  const Slot& slot = program_.slots[static_cast<std::size_t>(instr(n).slot)];
  const std::string load = fmt::format("{}_{}x{}({}, {});", slot.written ? "load" : "fetch",
                                       type(slot.dtype), program_.schedule.vec, to, address(n));
  if (instr(n).mask.empty()) return raw(load);
  line("if ({}) {}", condition(instr(n).mask), load);
  line("else fill_{}x{}({}, {});", type(slot.dtype), program_.schedule.vec, to,
       constant(instr(n).constant, slot.dtype));
}

void Printer::store_pack(int n, const std::string& from) {
  const DType dtype = program_.slots[static_cast<std::size_t>(instr(n).slot)].dtype;
  const std::string& mask = condition(instr(n).mask);
  line("{}store_{}x{}({}, {});", mask.empty() ? "" : fmt::format("if ({}) ", mask), type(dtype),
       program_.schedule.vec, address(n), from);
}

// Checks an index only if the element exists.
std::string Printer::checked_index(const Instr& self) const {
  if (!exists_if_)
    throw std::logic_error("emitter: an index is checked where its element may be absent");
  const std::string call = fmt::format("bounded({}, {}, {}, error)", value(self.a),
                                       number(self.high), number(self.site));
  if (exists_if_->empty()) return fmt::format("({}){}", type(self.dtype), call);
  return fmt::format("({})({} ? {} : 0)", type(self.dtype), *exists_if_, call);
}

std::string Printer::expression(int n) const {
  const Instr& self = instr(n);
  switch (self.kind) {
    case InstrKind::Const:
      return constant(self.constant, self.dtype);
    case InstrKind::Arg:
      return fmt::format("arg_{}(args[{}])", type(self.dtype), self.slot);
    case InstrKind::Index:
      return fmt::format("({})({})", type(self.dtype), affine(self.index));
    case InstrKind::Op: {
      const DType operands = instr(self.op == ScalarOp::where ? self.b : self.a).dtype;
      std::string text = op_function(self.op, operands) + "(" + value(self.a);
      if (self.b >= 0) text += ", " + value(self.b);
      if (self.c >= 0) text += ", " + value(self.c);
      return text + ")";
    }
    case InstrKind::Cast:
      return cast(value(self.a), instr(self.a).dtype, self.dtype);
    case InstrKind::Load: {
      std::string element = fmt::format("s{}[{}]", self.slot, element_index(self));
      if (self.mask.empty()) return element;
      return fmt::format("{} ? {} : {}", condition(self.mask), element,
                         constant(self.constant, self.dtype));
    }
    case InstrKind::Bounded:
      return checked_index(self);
    case InstrKind::Search:
      return fmt::format("search_{}(s{} + ({}), {}, {}, {})", type(instr(self.a).dtype), self.slot,
                         affine(self.index), number(self.value_stride), number(self.high),
                         value(self.a));
    case InstrKind::Philox:
      return fmt::format("philox_{}(philox_word((u64){}, (u64){}, (u64)({})))", type(self.dtype),
                         value(self.a), value(self.b), affine(self.index));
    case InstrKind::Reduce:
    case InstrKind::Scan:
    case InstrKind::Store:
      break;
  }
  return {};
}

void Printer::define(int n) {
  line("const {} {} = {};", type(instr(n).dtype), value(n), expression(n));
}

void Printer::store(int n, const std::string& guard) {
  const Instr& self = instr(n);
  std::string all = guard;
  if (!self.mask.empty()) all += (all.empty() ? "" : " && ") + condition(self.mask);
  line("{}s{}[{}] = {};", all.empty() ? "" : fmt::format("if ({}) ", all), self.slot,
       affine(self.index), value(self.a));
}

}  // namespace volta::kernel
