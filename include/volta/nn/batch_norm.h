// Batch norm layers: each channel is normalised by the mean and variance of the batch in training,
// and by the running statistics in eval mode, followed by a learned scale and shift.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/channel_norm.h"

namespace volta::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  // Weight of the batch in the running statistics; without it they are the mean over all batches so
  // far.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  // if false, eval mode also uses the batch's statistics
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Common part of both layers. num_batches_tracked counts every batch in training.
class VOLTA_API BatchNorm : public ChannelNorm {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  BatchNorm(const char* layer, std::int64_t num_features, BatchNormOptions options);
  virtual void check(const Tensor& x) const = 0;  // throws unless the shape fits

 private:
  Tensor trained(const Tensor& x) const;
};

// Normalises [n, num_features] or [n, num_features, length].
class VOLTA_API BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t num_features, BatchNormOptions options = {});

 private:
  void check(const Tensor& x) const override;
};

// Normalises [n, num_features, height, width].
class VOLTA_API BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {});

 private:
  void check(const Tensor& x) const override;
};

}  // namespace volta::nn
