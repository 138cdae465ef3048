// BatchNorm1d and BatchNorm2d.
#include "volta/nn/batch_norm.h"

#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/normalization.h"
#include "volta/ops.h"

namespace volta::nn {

BatchNorm::BatchNorm(const char* layer, std::int64_t num_features, BatchNormOptions options)
    : num_features_(num_features), momentum_(options.momentum), eps_(options.eps) {
  require_positive(layer, "num_features", num_features);
  require_eps(layer, options.eps);
  if (options.momentum && !std::isfinite(*options.momentum)) {
    throw ArgumentError(
        fmt::format("{}: the momentum must be finite, got {}", layer, *options.momentum));
  }
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  if (options.affine) {
    weight = add_parameter("weight", ones({num_features}, made));
    bias = add_parameter("bias", zeros({num_features}, made));
  }
  if (options.track_running_stats) {
    running_mean = add_buffer("running_mean", zeros({num_features}, made));
    running_var = add_buffer("running_var", ones({num_features}, made));
    num_batches_tracked = add_buffer("num_batches_tracked",
                                     zeros({}, {.dtype = DType::i64, .device = options.device}));
  }
}

Tensor BatchNorm::forward(const Tensor& x) {
  check(x);
  if (is_training() && running_mean.defined()) return trained(x);
  return batch_norm(x, running_mean, running_var, weight, bias,
                    {.training = is_training(), .eps = eps_});
}

Tensor BatchNorm::trained(const Tensor& x) const {
  // An empty batch has no statistics to average.
  const bool cumulative = !momentum_ && x.numel() > 0;
  const Tensor mean = cumulative ? zeros_like(*running_mean) : *running_mean,
               var = cumulative ? zeros_like(*running_var) : *running_var;
  const Tensor y = batch_norm(
      x, mean, var, weight, bias,
      {.training = true, .momentum = cumulative ? 1 : momentum_.value_or(0), .eps = eps_});
  num_batches_tracked.set(*num_batches_tracked + 1);
  if (cumulative) {
    // The share depends on the count, which is the device's: nothing is read back.
    const Tensor share = 1 / num_batches_tracked->to(mean.dtype());
    running_mean.set(lerp(*running_mean, mean, share));
    running_var.set(lerp(*running_var, var, share));
  }
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
