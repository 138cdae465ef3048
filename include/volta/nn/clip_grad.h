// Clips gradients between backward() and step(). Parameters without a gradient are ignored. Nothing
// is evaluated unless requested.
#pragma once

#include <vector>

#include "volta/tensor.h"

namespace volta::nn {

struct ClipOptions {
  double norm_type = 2;             // p of the norm, positive or infinite
  bool error_if_nonfinite = false;  // evaluates the norm; throws ArgumentError if it is inf or NaN
};
// Scales all gradients together so that the norm over all their elements is at most max_norm.
// Returns the norm before scaling, as a pending tensor.
VOLTA_API Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                                ClipOptions options = {},
                                SourceLocation place = SourceLocation::here());
// Clamps every element of every gradient to [-clip_value, clip_value].
VOLTA_API void clip_grad_value(const std::vector<Tensor>& parameters, double clip_value,
                               SourceLocation place = SourceLocation::here());

}  // namespace volta::nn
