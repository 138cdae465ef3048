// The backward pass.
#pragma once

#include <span>
#include <vector>

#include "volta/tensor.h"

namespace volta::graph {

void run_backward(const Tensor& root, const Tensor& gradient, BackwardOptions options, Place place);

// The gradients of the roots, each begun with one of `gradients`, with respect to the inputs;
// undefined where the roots do not depend on one.
std::vector<Tensor> collect_gradients(std::span<const Tensor> roots,
                                      std::span<const Tensor> gradients,
                                      const std::vector<Tensor>& inputs, BackwardOptions options,
                                      Place place);

// A copy on another device; gradients flow back.
Tensor copy_to_device(const Tensor& x, Device device, Place place);

}  // namespace volta::graph
