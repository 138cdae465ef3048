// The table of scalar operations, as data, and the size of programs.
#include "kernel/program.h"

#include "core/heap_bytes.h"

namespace volta::kernel {

const ScalarOpInfo& info(ScalarOp op) {
  static constexpr ScalarOpInfo table[kScalarOpCount] = {
#define VOLTA_SCALAR_OP(name, arity, result, float_expression, integer_expression) \
  {#name, arity, ScalarResult::result, float_expression, integer_expression},
#include "kernel/scalar_ops.def"
#undef VOLTA_SCALAR_OP
  };
  return table[static_cast<int>(op)];
}

std::uint64_t host_bytes(const Program& program) {
  std::uint64_t bytes = sizeof(Program) + heap_bytes(program.slots) + heap_bytes(program.args) +
                        heap_bytes(program.axes) + heap_bytes(program.instrs);
  for (const Instr& instr : program.instrs) {
    bytes += heap_bytes(instr.index.terms) + heap_bytes(instr.mask);
    for (const Bound& bound : instr.mask) bytes += heap_bytes(bound.expression.terms);
  }
  return bytes;
}

}  // namespace volta::kernel
