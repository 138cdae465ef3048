// How instructions depend on axes, on each other, and on phases.
#include "kernel/dependence.h"

namespace volta::kernel {
namespace {

std::uint64_t axes_in(const Affine& affine) {
  std::uint64_t axes = 0;
  for (const Term& term : affine.terms) axes |= std::uint64_t{1} << term.axis;
  return axes;
}

void mark_operands(const Instr& instr, std::vector<bool>& marks) {
  for (const int operand : {instr.a, instr.b, instr.c}) {
    if (operand >= 0) marks[static_cast<std::size_t>(operand)] = true;
  }
}

}  // namespace

std::vector<std::uint64_t> axis_dependence(const Program& program) {
  std::uint64_t par = 0, all = 0;
  for (std::size_t n = 0; n < program.axes.size(); ++n) {
    all |= std::uint64_t{1} << n;
    if (program.axes[n].role == Role::Par) par |= std::uint64_t{1} << n;
  }
  std::vector<std::uint64_t> axes;
  axes.reserve(program.instrs.size());
  for (const Instr& instr : program.instrs) {
    std::uint64_t set = axes_in(instr.index);
    for (const Bound& bound : instr.mask) set |= axes_in(bound.expression);
    for (const int operand : {instr.a, instr.b, instr.c}) {
      if (operand >= 0) set |= axes[static_cast<std::size_t>(operand)];
    }
    if (instr.kind == InstrKind::Scan) set |= all & ~par;
    axes.push_back(instr.kind == InstrKind::Reduce ? set & par : set);
  }
  return axes;
}

std::uint64_t unit_axes(const Program& program) {
  std::uint64_t axes = 0;
  for (std::size_t n = 0; n < program.axes.size(); ++n) {
    if (program.axes[n].extent.is_literal(1)) axes |= std::uint64_t{1} << n;
  }
  return axes;
}

std::vector<bool> live_instructions(const Program& program) {
  std::vector<bool> live(program.instrs.size());
  for (const Axis& axis : program.axes) {
    if (axis.bound >= 0) live[static_cast<std::size_t>(axis.bound)] = true;
  }
  for (std::size_t n = program.instrs.size(); n-- > 0;) {
    const Instr& instr = program.instrs[n];
    if (instr.kind == InstrKind::Store || instr.kind == InstrKind::Bounded) live[n] = true;
    if (live[n]) mark_operands(instr, live);
  }
  return live;
}

std::vector<bool> row_values_of_phase(const Program& program, const Analysis& analysis, int phase) {
  const std::vector<bool> live = live_instructions(program);
  std::vector<bool> needed(program.instrs.size());
  for (std::size_t n = program.instrs.size(); n-- > 0;) {
    const Instr& instr = program.instrs[n];
    const InstrInfo& self = analysis.instrs[n];
    const bool full = self.domain == Domain::Full;
    if (self.phase == phase && live[n]) {
      if (instr.kind == InstrKind::Reduce) needed[n] = true;
      if (full && (instr.kind == InstrKind::Store || instr.kind == InstrKind::Bounded))
        needed[n] = true;
    }
    // Reduces of earlier phases and values of Par points are known already, so the walk stops
    // there.
    const bool at_hand = instr.kind == InstrKind::Reduce ? self.phase != phase : !full;
    if (at_hand) needed[n] = false;
    if (needed[n]) mark_operands(instr, needed);
  }
  return needed;
}

}  // namespace volta::kernel
