// Norms that do not depend on the batch: RMSNorm over the last axes, GroupNorm and InstanceNorm2d
// over the channels of each image. LayerNorm is in layer_norm.h.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/channel_norm.h"
#include "volta/nn/module.h"

namespace volta::nn {

struct RMSNormOptions {
  std::optional<double> eps = std::nullopt;  // default: the machine epsilon of f32 or f64
  bool elementwise_affine = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct InstanceNormOptions {
  double eps = 1e-5;
  // Weight of the batch in the running statistics; without it they are the mean over all batches so
  // far.
  std::optional<double> momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;  // eval mode then uses running statistics
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// x / sqrt(mean of x² over the last axes + eps), then a learned scale. f16 and bf16 are computed in
// f32; the result has the promoted dtype of x and weight.
class VOLTA_API RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized, RMSNormOptions options = {});
  explicit RMSNorm(std::int64_t last, RMSNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  // Has the normalized shape, initially ones; undefined without elementwise_affine.
  Parameter weight;

 private:
  Shape normalized_;
  std::optional<double> eps_;
};

// Splits the channels of x [n, num_channels, ...] into num_groups groups, each normalised to mean 0
// and variance 1.
class VOLTA_API GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [num_channels], initially ones; undefined without affine
  Parameter bias;    // [num_channels], initially zeros; undefined without affine

 private:
  std::int64_t num_groups_, num_channels_;
  double eps_;
};

// Normalises each channel of each image of x [n, num_features, height, width] separately; n may be
// missing. As in PyTorch, num_batches_tracked stays 0 unless there is no momentum.
class VOLTA_API InstanceNorm2d : public ChannelNorm {
 public:
  explicit InstanceNorm2d(std::int64_t num_features, InstanceNormOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  Tensor tracked(const Tensor& x) const;
};

}  // namespace volta::nn
