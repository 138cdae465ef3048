// A convolution, or one of its gradients, as a library call.
#pragma once

#include "backend/steps.h"
#include "plan/calls/call.h"

namespace volta::plan {

const Call& convolution_call();

// Lowers the step to a call of the device's library; returns an empty Expr if the library does not
// support it. Operands are as ConvStep says, with weights in channels-second layout.
Expr convolution(Lowering& lowering, ConvStep step, Extent images, Expr a, Expr b);

}  // namespace volta::plan
