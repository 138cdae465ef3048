// A convolution, or one of its gradients, as a library call.
#pragma once

#include <array>

#include "backend/steps.h"
#include "plan/calls/call.h"

namespace volta::plan {

const Call& convolution_call();

// The sizes of a step that may be open: the number of images, and the height and width of images
// and results.
struct ConvSizes {
  Extent images;
  std::array<Extent, 2> in, out;
};

// Lowers the step, whose `n`, `in` and `out` are `sizes`, to a call of the device's library;
// returns an empty Expr if the library does not support it. ConvStep describes the
// operands; weights have the channels-second layout.
Expr convolution(Lowering& lowering, ConvStep step, ConvSizes sizes, Expr a, Expr b);

}  // namespace volta::plan
