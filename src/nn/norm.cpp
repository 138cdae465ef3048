// RMSNorm, GroupNorm, InstanceNorm2d.
#include "volta/nn/norm.h"

#include <limits>
#include <vector>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/normalization.h"
#include "volta/ops.h"

namespace volta::nn {

RMSNorm::RMSNorm(const Shape& normalized, RMSNormOptions options)
    : normalized_(normalized), eps_(options.eps) {
  if (normalized.rank() == 0 || normalized.numel() == 0) {
    throw ArgumentError(
        fmt::format("RMSNorm: nothing to normalize over in shape {}", to_string(normalized)));
  }
  if (options.eps) require_eps("RMSNorm", *options.eps);
  if (!options.elementwise_affine) return;
  weight =
      add_parameter("weight", ones(normalized, {.dtype = options.dtype, .device = options.device}));
}

RMSNorm::RMSNorm(std::int64_t last, RMSNormOptions options) : RMSNorm(Shape{last}, options) {}

Tensor RMSNorm::forward(const Tensor& x) {
  if (!x.defined()) throw ArgumentError("RMSNorm: the input is not a tensor");
  if (!is_floating(x.dtype())) {
    throw DTypeError(
        fmt::format("RMSNorm: expected a floating-point tensor, got {}", name_of(x.dtype())));
  }
  const int axes = normalized_.rank(), first = x.rank() - axes;
  bool fits = first >= 0;
  std::vector<std::int64_t> last;
  for (int i = 0; fits && i < axes; ++i) {
    fits = normalized_[i] == x.shape()[first + i];
    last.push_back(first + i);
  }
  if (!fits) {
    throw ShapeError(fmt::format("RMSNorm: {} are not the last sizes of {}", to_string(normalized_),
                                 to_string(x.shape())));
  }
  const DType inner = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const double eps = eps_.value_or(
      inner == DType::f64 ? std::numeric_limits<double>::epsilon()
                          : static_cast<double>(std::numeric_limits<float>::epsilon()));
  const Tensor wide = x.to(inner);
  const Tensor y = wide * rsqrt(mean(square(wide), last, true) + eps);
  if (!weight.defined()) return y.to(x.dtype());
  return (y * *weight).to(promote(x.dtype(), weight->dtype()));
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options)
    : num_groups_(num_groups), num_channels_(num_channels), eps_(options.eps) {
  require_positive("GroupNorm", "num_groups", num_groups);
  require_positive("GroupNorm", "num_channels", num_channels);
  require_eps("GroupNorm", options.eps);
  if (num_channels % num_groups != 0) {
    throw ArgumentError(fmt::format("GroupNorm: {} channels are no multiple of {} groups",
                                    num_channels, num_groups));
  }
  if (!options.affine) return;
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  weight = add_parameter("weight", ones({num_channels}, made));
  bias = add_parameter("bias", zeros({num_channels}, made));
}

Tensor GroupNorm::forward(const Tensor& x) {
  if (!x.defined()) throw ArgumentError("GroupNorm: the input is not a tensor");
  if (x.rank() < 2 || x.shape()[1] != num_channels_) {
    throw ShapeError(fmt::format("GroupNorm: expected [n, {}, ...], got {}", num_channels_,
                                 to_string(x.shape())));
  }
  return group_norm(x, num_groups_, weight, bias, eps_);
}

InstanceNorm2d::InstanceNorm2d(std::int64_t num_features, InstanceNormOptions options)
    : ChannelNorm("InstanceNorm2d", num_features,
                  {.eps = options.eps,
                   .momentum = options.momentum,
                   .affine = options.affine,
                   .track_running_stats = options.track_running_stats,
                   .dtype = options.dtype,
                   .device = options.device}) {}

Tensor InstanceNorm2d::forward(const Tensor& x) {
  if (!require_channels("InstanceNorm2d", x, num_features(), "height, width", Leading::optional)) {
    return forward(x.unsqueeze(0)).squeeze(0);
  }
  const bool tracks = running_mean.defined();
  if (tracks && !is_training()) {
    return batch_norm(x, running_mean, running_var, weight, bias, {.eps = eps()});
  }
  if (x.shape()[2] * x.shape()[3] == 1) {
    throw ArgumentError(fmt::format(
        "InstanceNorm2d: expected more than 1 value per channel, got {}", to_string(x.shape())));
  }
  // An empty input has no statistics to track.
  return tracks && x.numel() > 0 ? tracked(x) : instance_norm(x, weight, bias, eps());
}

// Normalizes the batch as one image that has the channels of all images. Each running statistic
// becomes the mean of the values that the images would give it.
Tensor InstanceNorm2d::tracked(const Tensor& x) const {
  const Shape& shape = x.shape();
  const std::int64_t n = shape[0], channels = shape[1];
  const auto repeated = [&](const Tensor& t) { return t.defined() ? t.tile({n}) : t; };
  const Tensor mean = repeated(running_mean), var = repeated(running_var);
  const Tensor y = batch_norm(x.reshape({1, n * channels, shape[2], shape[3]}), mean, var,
                              repeated(weight), repeated(bias),
                              {.training = true, .momentum = momentum().value_or(1), .eps = eps()});
  const auto over_images = [&](const Tensor& t) { return t.reshape({n, channels}).mean(0); };
  if (momentum()) {
    running_mean.set(over_images(mean));
    running_var.set(over_images(var));
  } else {
    average(over_images(mean), over_images(var));
  }
  return y.reshape(shape);
}

}  // namespace volta::nn
