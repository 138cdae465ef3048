// ChannelNorm: what batch and instance norm share: a scale and shift of each channel, running
// statistics and how they are averaged.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

// Training changes the buffers where they are, as part of the step; eval mode only reads them, so
// that threads may share a module. State dicts may lack num_batches_tracked, as those that PyTorch
// wrote before it existed do.
class VOLTA_API ChannelNorm : public Module {
 public:
  Parameter weight;            // [num_features], ones at first; undefined without affine
  Parameter bias;              // likewise, zeros at first
  Buffer running_mean;         // [num_features], zeros at first; undefined without tracking
  Buffer running_var;          // likewise, ones at first
  Buffer num_batches_tracked;  // i64, how many batches were counted

 protected:
  struct Options {
    double eps;
    std::optional<double> momentum;
    bool affine, track_running_stats;
    DType dtype;
    std::optional<Device> device;
  };
  ChannelNorm(const char* layer, std::int64_t num_features, const Options& options);

  std::int64_t num_features() const { return num_features_; }
  double eps() const { return eps_; }
  std::optional<double> momentum() const { return momentum_; }
  // Counts a batch and makes its statistics part of the mean over all batches so far.
  void average(const Tensor& batch_mean, const Tensor& batch_var) const;

 private:
  std::int64_t num_features_;
  std::optional<double> momentum_;
  double eps_;
};

}  // namespace volta::nn
