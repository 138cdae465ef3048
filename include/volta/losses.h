// Losses as in PyTorch, by element or by row, and their reduction to a mean, a sum, or none.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

enum class Reduction : std::uint8_t {
  none,  // one loss per element or row
  mean,  // for losses by class: over rows that are not ignored, weighted by their labels' weights
  sum,
  batchmean,  // the sum divided by the size of the first axis; for kl_div and gaussian_kl
};

struct LossOptions {
  Reduction reduction = Reduction::mean;
};
struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;
  double beta = 1;  // largest difference with a quadratic loss; 0 gives l1_loss
};
struct HuberLossOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;  // largest difference with a quadratic loss
};
struct BinaryCrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};  // factor on each loss; broadcasts to the input's shape
};
struct BinaryCrossEntropyWithLogitsOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};      // factor on each loss; broadcasts to the input's shape
  Tensor pos_weight = {};  // factor on the target's part (positive examples); broadcasts likewise
};
struct KLDivOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target contains log-probabilities
};
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};                // one factor per class
  std::int64_t ignore_index = -100;  // rows with this label have no loss and do not count in a mean
};
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};                // one factor per class
  std::int64_t ignore_index = -100;  // rows with this label have no loss and do not count in a mean
  double label_smoothing = 0;        // share of each target that is spread equally over all classes
};

// ---- Losses. Input and target have the same shape, and the target is converted to the dtype of
// the input. A weight has the input's dtype, or f32 beside f16 and bf16, and gets no gradient.
VOLTA_API Tensor mse_loss(const Tensor& input, const Tensor& target, LossOptions options = {},
                          SourceLocation place = SourceLocation::here());
VOLTA_API Tensor l1_loss(const Tensor& input, const Tensor& target, LossOptions options = {},
                         SourceLocation place = SourceLocation::here());
// Quadratic where input and target differ by less than beta, and linear with slope 1 elsewhere.
VOLTA_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                SmoothL1LossOptions options = {},
                                SourceLocation place = SourceLocation::here());
// smooth_l1_loss with beta = delta, times delta: quadratic at first, then linear with slope delta.
VOLTA_API Tensor huber_loss(const Tensor& input, const Tensor& target,
                            HuberLossOptions options = {},
                            SourceLocation place = SourceLocation::here());
// The input contains probabilities; outside [0, 1] the loss is NaN. Logarithms are clamped at -100.
VOLTA_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                      const BinaryCrossEntropyOptions& options = {},
                                      SourceLocation place = SourceLocation::here());
// The binary cross-entropy of sigmoid(input), stable for inputs of any size.
VOLTA_API Tensor
binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                 const BinaryCrossEntropyWithLogitsOptions& options = {},
                                 SourceLocation place = SourceLocation::here());
// The Kullback-Leibler divergence of the target, which contains probabilities, from the input,
// which contains log-probabilities. Where a target is 0, its gradient is infinite.
VOLTA_API Tensor kl_div(const Tensor& input, const Tensor& target, KLDivOptions options = {},
                        SourceLocation place = SourceLocation::here());
// The divergence of normal distributions with mean mu and variance exp(logvar) from the standard
// normal distribution, as used for the codes of a variational autoencoder.
VOLTA_API Tensor gaussian_kl(const Tensor& mu, const Tensor& logvar, LossOptions options = {},
                             SourceLocation place = SourceLocation::here());
// The negative log-likelihood of log_probabilities [n, classes], [n, classes, ...] or [classes] for
// integer labels of the same shape without the class axis.
VOLTA_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                          const NLLLossOptions& options = {},
                          SourceLocation place = SourceLocation::here());
// The cross-entropy of logits [n, classes], [n, classes, ...] or [classes]. The target contains
// integer labels of the same shape without the class axis, or probabilities of the same shape.
VOLTA_API Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                               const CrossEntropyOptions& options = {},
                               SourceLocation place = SourceLocation::here());

}  // namespace volta
