// ChannelNorm.
#include "volta/nn/channel_norm.h"

#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {

ChannelNorm::ChannelNorm(const char* layer, std::int64_t num_features, const Options& options)
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
    num_batches_tracked =
        add_buffer("num_batches_tracked",
                   zeros({}, {.dtype = DType::i64, .device = options.device}), {.required = false});
  }
}

// The weight of the new batch is 1 / num_batches_tracked. The count is a tensor on the device, so
// nothing is read back to the host.
void ChannelNorm::average(const Tensor& batch_mean, const Tensor& batch_var) const {
  num_batches_tracked.set(*num_batches_tracked + 1);
  const Tensor share = 1 / num_batches_tracked->to(batch_mean.dtype());
  running_mean.set(lerp(*running_mean, batch_mean, share));
  running_var.set(lerp(*running_var, batch_var, share));
}

}  // namespace volta::nn
