// BatchNorm1d and BatchNorm2d.
#include "volta/nn/batch_norm.h"

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/normalization.h"

namespace volta::nn {

BatchNorm::BatchNorm(const char* layer, std::int64_t num_features, BatchNormOptions options)
    : ChannelNorm(layer, num_features,
                  {.eps = options.eps,
                   .momentum = options.momentum,
                   .affine = options.affine,
                   .track_running_stats = options.track_running_stats,
                   .dtype = options.dtype,
                   .device = options.device}) {}

Tensor BatchNorm::forward(const Tensor& x) {
  check(x);
  if (is_training() && running_mean.defined()) return trained(x);
  return batch_norm(x, running_mean, running_var, weight, bias,
                    {.training = is_training(), .eps = eps()});
}

Tensor BatchNorm::trained(const Tensor& x) const {
  // An empty batch has no statistics to add to the cumulative average.
  const bool cumulative = !momentum() && x.numel() > 0;
  if (!cumulative) {
    const Tensor y =
        batch_norm(x, running_mean, running_var, weight, bias,
                   {.training = true, .momentum = momentum().value_or(0), .eps = eps()});
    num_batches_tracked.set(*num_batches_tracked + 1);
    return y;
  }
  const Tensor mean = zeros_like(*running_mean), var = zeros_like(*running_var);
  const Tensor y =
      batch_norm(x, mean, var, weight, bias, {.training = true, .momentum = 1, .eps = eps()});
  average(mean, var);
  return y;
}

BatchNorm1d::BatchNorm1d(std::int64_t num_features, BatchNormOptions options)
    : BatchNorm("BatchNorm1d", num_features, options) {}
void BatchNorm1d::check(const Tensor& x) const {
  if (!x.defined()) throw ArgumentError("BatchNorm1d: the input is not a tensor");
  const Shape& shape = x.shape();
  if ((shape.rank() == 2 || shape.rank() == 3) && shape[1] == num_features()) return;
  throw ShapeError(fmt::format("BatchNorm1d: expected [n, {0}] or [n, {0}, length], got {1}",
                               num_features(), to_string(shape)));
}

BatchNorm2d::BatchNorm2d(std::int64_t num_features, BatchNormOptions options)
    : BatchNorm("BatchNorm2d", num_features, options) {}
void BatchNorm2d::check(const Tensor& x) const {
  require_channels("BatchNorm2d", x, num_features(), "height, width", Leading::needed);
}

}  // namespace volta::nn
