// The table of scalar operations, as data.
#include "kernel/program.h"

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

}  // namespace volta::kernel
