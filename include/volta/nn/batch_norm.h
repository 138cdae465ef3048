// Batch norm as layers: each channel by the mean and variance of the batch while training, by the
// running ones in eval mode, then a learned scale and shift.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/channel_norm.h"

namespace volta::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  // The batch's share in the running statistics; none: they are the mean over all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  // without, eval mode takes the batch's statistics too
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// What both have. num_batches_tracked counts every batch that was trained with.
class VOLTA_API BatchNorm : public ChannelNorm {
 public:
  Tensor forward(const Tensor& x) override;

 protected:
  BatchNorm(const char* layer, std::int64_t num_features, BatchNormOptions options);
  virtual void check(const Tensor& x) const = 0;  // throws unless the shape fits

 private:
  Tensor trained(const Tensor& x) const;
};

// Of [n, num_features] or [n, num_features, length].
class VOLTA_API BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t num_features, BatchNormOptions options = {});

 private:
  void check(const Tensor& x) const override;
};

// Of [n, num_features, height, width].
class VOLTA_API BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t num_features, BatchNormOptions options = {});

 private:
  void check(const Tensor& x) const override;
};

}  // namespace volta::nn
