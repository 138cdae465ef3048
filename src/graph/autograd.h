// The backward pass.
#pragma once

#include "volta/tensor.h"

namespace volta::graph {

void run_backward(const Tensor& root, const Tensor& gradient, BackwardOptions options, Place place);

// A copy on another device; gradients flow back.
Tensor copy_to_device(const Tensor& x, Device device, Place place);

}  // namespace volta::graph
