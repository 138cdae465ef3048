// Bounds for gradients, between backward() and step(). Parameters without a gradient are left
// alone. Nothing is evaluated unless asked for.
#pragma once

#include <vector>

#include "volta/tensor.h"

namespace volta::nn {

struct ClipOptions {
  double norm_type = 2;             // p of the norm, positive; may be infinite
  bool error_if_nonfinite = false;  // evaluates the norm; throws ArgumentError if it is inf or NaN
};
// Scales all gradients together so that the norm of all their elements is at most max_norm. Gives
// the norm before that, pending.
VOLTA_API Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                                ClipOptions options = {}, Place place = Place::here());
// Brings every element of every gradient into [-clip_value, clip_value].
VOLTA_API void clip_grad_value(const std::vector<Tensor>& parameters, double clip_value,
                               Place place = Place::here());

}  // namespace volta::nn
