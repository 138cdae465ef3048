// Computes the domain of each instruction and the phase in which its value is known.
#include <algorithm>

#include "kernel/program.h"

namespace volta::kernel {
namespace {

Domain domain_of(const Affine& affine, const Program& program) {
  Domain domain = Domain::Uniform;
  for (const Term& term : affine.terms) {
    const Role role = program.axes[static_cast<std::size_t>(term.axis)].role;
    domain = std::max(domain, role == Role::Red ? Domain::Full : Domain::Par);
  }
  return domain;
}

}  // namespace

Analysis analyze(const Program& program) {
  Analysis analysis;
  analysis.instrs.resize(program.instrs.size());
  for (std::size_t n = 0; n < program.instrs.size(); ++n) {
    const Instr& instr = program.instrs[n];
    InstrInfo& self = analysis.instrs[n];
    self.domain = domain_of(instr.index, program);
    for (const Bound& bound : instr.mask) {
      self.domain = std::max(self.domain, domain_of(bound.expression, program));
    }
    for (const int operand : {instr.a, instr.b, instr.c}) {
      if (operand < 0) continue;
      const InstrInfo& source = analysis.instrs[static_cast<std::size_t>(operand)];
      const bool reduced =
          program.instrs[static_cast<std::size_t>(operand)].kind == InstrKind::Reduce;
      self.domain = std::max(self.domain, source.domain);
      self.phase = std::max(self.phase, source.phase + (reduced ? 1 : 0));
    }
    for (const int operand : {instr.a, instr.b, instr.c}) {
      if (operand < 0) continue;
      InstrInfo& source = analysis.instrs[static_cast<std::size_t>(operand)];
      source.last_use = std::max(source.last_use, self.phase);
    }
    if (instr.kind == InstrKind::Reduce) self.domain = Domain::Par;
    if (instr.kind == InstrKind::Scan) self.domain = Domain::Full;
    if (instr.kind == InstrKind::Bounded) analysis.has_bounded = true;
    analysis.phases = std::max(analysis.phases, self.phase + 1);
  }
  return analysis;
}

}  // namespace volta::kernel
