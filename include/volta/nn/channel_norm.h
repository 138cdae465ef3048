// ChannelNorm: the common part of batch and instance norm: a scale and shift per channel, and
// running statistics.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

// Training updates the buffers as part of the step. Eval mode only reads them, so threads may share
// a module. State dicts may lack num_batches_tracked, as those of early PyTorch versions do.
class VOLTA_API ChannelNorm : public Module {
 public:
  Parameter weight;            // [num_features], initially ones; undefined without affine
  Parameter bias;              // [num_features], initially zeros; undefined without affine
  Buffer running_mean;         // [num_features], initially zeros; undefined without tracking
  Buffer running_var;          // [num_features], initially ones; undefined without tracking
  Buffer num_batches_tracked;  // i64, number of batches so far

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
  // Counts a batch and includes its statistics in the mean over all batches so far.
  void average(const Tensor& batch_mean, const Tensor& batch_var) const;

 private:
  std::int64_t num_features_;
  std::optional<double> momentum_;
  double eps_;
};

}  // namespace volta::nn
