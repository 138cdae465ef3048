// The fused optimizer updates: one recorded operation for all parameters, in place, on their
// device. Parameters without a gradient are left alone. Each submits the step as one plan and
// returns at once.
#pragma once

#include <span>

#include "volta/tensor.h"

namespace volta {

// A step under GradScaler: scalars, f32.
struct ScaledStep {
  Tensor found_inf;      // not 0: parameters and state stay as they are; undefined: a plain step
  Tensor inverse_scale;  // of the gradients; undefined: they are not scaled
};

struct SgdUpdate {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  ScaledStep scaled = {};
};
// momentum: one buffer per parameter (ignored and may be empty when options.momentum == 0).
VOLTA_API void sgd_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
                        const SgdUpdate& options, Place place = Place::here());

struct AdamUpdate {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
  ScaledStep scaled = {};
};
// first, second: moments of each parameter's shape; steps: one f32 scalar tensor per parameter.
VOLTA_API void adam_step(std::span<const Tensor> parameters, std::span<Tensor> first,
                         std::span<Tensor> second, std::span<Tensor> steps,
                         const AdamUpdate& options, Place place = Place::here());

// One number over all elements of all tensors, floats on one device: a pending scalar, without
// history, in few kernels however many tensors there are.
// 1 if some element is infinite or NaN, else 0; f32.
VOLTA_API Tensor any_nonfinite(std::span<const Tensor> tensors, Place place = Place::here());
// (sum |x|^p)^(1/p), or the largest |x| for an infinite p; f64 if one of the tensors is, else f32.
VOLTA_API Tensor total_norm(std::span<const Tensor> tensors, double p = 2,
                            Place place = Place::here());

}  // namespace volta
