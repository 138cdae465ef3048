// The fused optimizer updates: one recorded operation updates all parameters in place on their
// device. Parameters without a gradient are left unchanged. Each function submits the step as one
// plan, unless `submits` is false because more of the step follows, and returns at once. Numbers
// such as the learning rate are arguments of the plan, so new ones replay it. Programs use the
// classes of volta/optim.h; this header is not part of the API.
#pragma once

#include <array>
#include <span>

#include "volta/export.h"
#include "volta/tensor.h"

namespace volta {

// A step under GradScaler; both tensors are f32 scalars.
struct ScaledStep {
  Tensor found_inf;  // if nonzero, parameters and state are not changed; undefined for a plain step
  Tensor inverse_scale;  // factor on the gradients; undefined if they are not scaled
};

struct SgdUpdate {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
  ScaledStep scaled = {};
  bool submits = true;
};
// momentum: one buffer per parameter (ignored and may be empty when options.momentum == 0).
VOLTA_BACKEND_API void sgd_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
                                const SgdUpdate& options,
                                SourceLocation place = SourceLocation::here());

struct AdamUpdate {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
  bool maximize = false;
  std::span<Tensor> largest = {};  // second moments of AMSGrad; empty for plain Adam
  ScaledStep scaled = {};
  bool submits = true;
};
// first, second: moments of each parameter's shape; steps: one f32 scalar tensor per parameter.
VOLTA_BACKEND_API void adam_step(std::span<const Tensor> parameters, std::span<Tensor> first,
                                 std::span<Tensor> second, std::span<Tensor> steps,
                                 const AdamUpdate& options,
                                 SourceLocation place = SourceLocation::here());

struct RmspropUpdate {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool maximize = false;
  std::span<Tensor> averages = {};  // average gradients if they are subtracted, otherwise empty
  std::span<Tensor> buffers = {};   // momentum buffers, empty without momentum
  ScaledStep scaled = {};
  bool submits = true;
};
// squares: the running averages of squared gradients.
VOLTA_BACKEND_API void rmsprop_step(std::span<const Tensor> parameters, std::span<Tensor> squares,
                                    const RmspropUpdate& options,
                                    SourceLocation place = SourceLocation::here());

struct AdagradUpdate {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, eps = 1e-10;
  bool maximize = false;
  ScaledStep scaled = {};
  bool submits = true;
};
// sums: of squared gradients; steps: one f32 scalar tensor per parameter.
VOLTA_BACKEND_API void adagrad_step(std::span<const Tensor> parameters, std::span<Tensor> sums,
                                    std::span<Tensor> steps, const AdagradUpdate& options,
                                    SourceLocation place = SourceLocation::here());

struct LionUpdate {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  ScaledStep scaled = {};
  bool submits = true;
};
VOLTA_BACKEND_API void lion_step(std::span<const Tensor> parameters, std::span<Tensor> averages,
                                 const LionUpdate& options,
                                 SourceLocation place = SourceLocation::here());

struct MuonUpdate {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int steps = 5;  // number of Newton–Schulz iterations
  // Multiplies the learning rate by 0.2 sqrt(max(a, b)) for a matrix [a, b].
  bool matches_adamw = false;
  ScaledStep scaled = {};
  bool submits = true;
};
// Parameters are matrices; momentum: one buffer of each one's shape.
VOLTA_BACKEND_API void muon_step(std::span<const Tensor> parameters, std::span<Tensor> momentum,
                                 const MuonUpdate& options,
                                 SourceLocation place = SourceLocation::here());

// Returns the same pointer for all handles of one variable, which an update would otherwise change
// twice.
VOLTA_BACKEND_API const void* variable_of(const Tensor& tensor);

// The functions below reduce all elements of all tensors to one number. The tensors are floats on
// one device. The result is a pending scalar without history, computed by few kernels for any
// number of tensors.
//
// any_nonfinite is 1 if any element is infinite or NaN, otherwise 0, as f32.
VOLTA_BACKEND_API Tensor any_nonfinite(std::span<const Tensor> tensors,
                                       SourceLocation place = SourceLocation::here());
// total_norm is (sum |x|^p)^(1/p), or the largest |x| for an infinite p, as f64 if one of the
// tensors is f64, otherwise f32.
VOLTA_BACKEND_API Tensor total_norm(std::span<const Tensor> tensors, double p = 2,
                                    SourceLocation place = SourceLocation::here());

}  // namespace volta
