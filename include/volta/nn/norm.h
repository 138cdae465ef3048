// Norms that need no batch: RMSNorm over the last axes, GroupNorm and InstanceNorm2d over channels
// of each image. LayerNorm is in layer_norm.h.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/channel_norm.h"
#include "volta/nn/module.h"

namespace volta::nn {

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  // none: the smallest difference from 1 of f32 or f64
  bool elementwise_affine = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};
struct InstanceNormOptions {
  double eps = 1e-5;
  // The batch's share in the running statistics; none: they are the mean over all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;  // eval mode then takes running statistics
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// x / sqrt(mean of x² over the last axes + eps), then a learned scale. Halves are computed in f32;
// the result has the dtype that x and weight promote to.
class VOLTA_API RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized, RMSNormOptions options = {});
  explicit RMSNorm(std::int64_t last, RMSNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // of the normalized shape, ones at first; undefined without elementwise_affine

 private:
  Shape normalized_;
  std::optional<double> eps_;
};

// Channels of x [n, num_channels, ...] in num_groups parts, each with mean 0 and variance 1.
class VOLTA_API GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [num_channels], ones at first; undefined without affine
  Parameter bias;    // likewise, zeros at first

 private:
  std::int64_t num_groups_, num_channels_;
  double eps_;
};

// Each channel of each image of x [n, num_features, height, width] by itself; n may be missing.
// num_batches_tracked stays 0, as PyTorch's, unless there is no momentum.
class VOLTA_API InstanceNorm2d : public ChannelNorm {
 public:
  explicit InstanceNorm2d(std::int64_t num_features, InstanceNormOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  Tensor tracked(const Tensor& x) const;
};

}  // namespace volta::nn
