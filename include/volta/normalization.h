// Normalisation of channels as in PyTorch: x is [n, channels] or [n, channels, ...].
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

struct BatchNormOptions {
  bool training = false;  // normalises by the statistics of the batch
  double momentum = 0.1;  // weight of the batch in the next running statistics
  double eps = 1e-5;
};

// ---- Normalisation of channels.
// Returns (x - mean) / sqrt(variance + eps) * weight + bias for each channel of x [n, channels,
// ...], with at most 5 axes. While training, mean and variance are those of the batch, and
// running_mean and running_var, if defined, are updated in place: r + momentum (b - r) for the
// batch's statistic b, where the variance is the unbiased one. An empty batch leaves them
// unchanged, and a batch with one value per channel is an error. Otherwise mean and variance are
// the running statistics, or those of the batch if these are undefined. weight and bias may be
// undefined. f16 and bf16 are computed in f32; their parameters and statistics may be f32.
VOLTA_API Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                            const Tensor& weight = {}, const Tensor& bias = {},
                            BatchNormOptions options = {},
                            SourceLocation place = SourceLocation::here());
// Splits the channels of each image into `groups` parts, each normalised by its own mean and
// variance. weight and bias have one element per channel and may be undefined.
VOLTA_API Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {},
                            const Tensor& bias = {}, double eps = 1e-5,
                            SourceLocation place = SourceLocation::here());
// group_norm with one channel per group.
VOLTA_API Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                               double eps = 1e-5, SourceLocation place = SourceLocation::here());

}  // namespace volta
