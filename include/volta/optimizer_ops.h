// The fused optimizer updates: one recorded operation for all parameters, in place, on their
// device. Parameters without a gradient are left alone. Each submits the step as one plan and
// returns at once.
#pragma once

#include <span>

#include "volta/tensor.h"

namespace volta {

struct SgdUpdate {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};
// momentum: one buffer per parameter (ignored and may be empty when options.momentum == 0).
VOLTA_API void sgd_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
                        const SgdUpdate& options, Place place = Place::here());

struct AdamUpdate {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
};
// first, second: moments of each parameter's shape; steps: one f32 scalar tensor per parameter.
VOLTA_API void adam_step(std::span<const Tensor> parameters, std::span<Tensor> first,
                         std::span<Tensor> second, std::span<Tensor> steps,
                         const AdamUpdate& options, Place place = Place::here());

}  // namespace volta
