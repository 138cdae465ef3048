// The backward pass.
#pragma once

#include <span>
#include <vector>

#include "volta/tensor.h"

namespace volta::graph {

void run_backward(const Tensor& root, const Tensor& gradient, BackwardOptions options,
                  SourceLocation place);

// The gradients of the roots with respect to the inputs, starting from one of `gradients` for each
// root. The gradient of an input that no root depends on is undefined.
std::vector<Tensor> collect_gradients(std::span<const Tensor> roots,
                                      std::span<const Tensor> gradients,
                                      const std::vector<Tensor>& inputs, BackwardOptions options,
                                      SourceLocation place);

// A copy on another device, through which gradients flow back.
Tensor copy_to_device(const Tensor& x, Device device, SourceLocation place);

}  // namespace volta::graph
