// Batch norm as layers: each channel by the mean and variance of the batch while training, by the
// running ones in eval mode, then a learned scale and shift.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct BatchNormOptions {
  double eps = 1e-5;
  // The batch's share in the running statistics; none: they are the mean over all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;  // without, eval mode takes the batch's statistics too
  DType dtype = DType::f32;
  Device device = Device::cpu();
};

// What both have. Training changes the buffers where they are, as part of the step; eval mode only
// reads them, so that threads may share a module.
class VOLTA_API BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;

  Parameter weight;            // [num_features], ones at first; undefined without affine
  Parameter bias;              // likewise, zeros at first
  Buffer running_mean;         // [num_features], zeros at first; undefined without tracking
  Buffer running_var;          // likewise, ones at first
  Buffer num_batches_tracked;  // i64, how many batches were trained with

 protected:
  BatchNorm(const char* layer, std::int64_t num_features, BatchNormOptions options);
  std::int64_t num_features() const { return num_features_; }
  virtual void check(const Tensor& x) const = 0;  // throws unless the shape fits

 private:
  Tensor trained(const Tensor& x) const;

  std::int64_t num_features_;
  std::optional<double> momentum_;
  double eps_;
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
