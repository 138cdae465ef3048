// Normalisation of channels as PyTorch's: x is [n, channels] or [n, channels, ...].
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

struct BatchNormOptions {
  bool training = false;  // by the batch's own statistics
  double momentum = 0.1;  // their share in the running ones' next values
  double eps = 1e-5;
};

// ---- Normalisation of channels.
// (x - mean) / sqrt(variance + eps) * weight + bias for each channel of x [n, channels, ...], at
// most 5 axes. While training, mean and variance are the batch's, and running_mean and running_var,
// where defined, are changed in place: r + momentum (of the batch - r), the variance an unbiased
// one; an empty batch leaves them, one value per channel is refused. Else they are the running
// ones, or the batch's where those are undefined. weight and bias may be undefined. Halves are
// computed in f32; their parameters and statistics may be f32.
VOLTA_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& weight = {}, const Tensor& bias = {},
                            BatchNormOptions options = {},
                            SourceLocation place = SourceLocation::here());
// The channels of each of n in `groups` parts, each normalised by its own mean and variance; weight
// and bias, by channel, may be undefined.
VOLTA_API Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                            const Tensor& bias = {}, double eps = 1e-5,
                            SourceLocation place = SourceLocation::here());
// The same with each channel for itself.
VOLTA_API Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                               double eps = 1e-5, SourceLocation place = SourceLocation::here());

}  // namespace volta
