// Losses as PyTorch's, of elements or of rows, and what becomes of them: a mean, a sum, or each.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

enum class Reduction : std::uint8_t {
  none,  // each by itself
  mean,  // of a loss by class, over the rows that are not ignored or the weights of their labels
  sum,
  batchmean,  // their sum over the size of the first axis: kl_div and gaussian_kl
};

struct LossOptions {
  Reduction reduction = Reduction::mean;
};
struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;
  double beta = 1;  // from here on linear; 0: l1_loss
};
struct HuberLossOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;  // from here on linear
};
struct BinaryCrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};  // of each loss; expands to the input's shape
};
struct BinaryCrossEntropyWithLogitsOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};      // of each loss; expands to the input's shape
  Tensor pos_weight = {};  // of what the target is near 1 for; expands likewise
};
struct KLDivOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target has logarithms, too
};
struct NLLLossOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};                // by class
  std::int64_t ignore_index = -100;  // rows of this label have no loss and count in no mean
};
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {};                // by class
  std::int64_t ignore_index = -100;  // rows of this label have no loss and count in no mean
  double label_smoothing = 0;  // the share of every target that all classes have in equal parts
};

// ---- Losses. Input and target have one shape; the target takes the input's dtype. A weight is in
// the input's dtype, or in f32 beside halves, and takes no gradient.
VOLTA_API Tensor mse_loss(const Tensor& input, const Tensor& target, LossOptions options = {},
                          SourceLocation place = SourceLocation::here());
VOLTA_API Tensor l1_loss(const Tensor& input, const Tensor& target, LossOptions options = {},
                         SourceLocation place = SourceLocation::here());
// Quadratic where input and target differ by less than beta, else linear; its slope there is 1.
VOLTA_API Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                                SmoothL1LossOptions options = {},
                                SourceLocation place = SourceLocation::here());
// The same times delta: smooth_l1_loss with another unit.
VOLTA_API Tensor huber_loss(const Tensor& input, const Tensor& target,
                            HuberLossOptions options = {},
                            SourceLocation place = SourceLocation::here());
// Of probabilities; outside [0, 1] it is NaN. Logarithms are not below -100.
VOLTA_API Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                                      const BinaryCrossEntropyOptions& options = {},
                                      SourceLocation place = SourceLocation::here());
// The same of sigmoid(input), stable for inputs of any size.
VOLTA_API Tensor
binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                 const BinaryCrossEntropyWithLogitsOptions& options = {},
                                 SourceLocation place = SourceLocation::here());
// The divergence of the target, probabilities, from the input, log-probabilities. Where a target is
// 0 its gradient is infinite.
VOLTA_API Tensor kl_div(const Tensor& input, const Tensor& target, KLDivOptions options = {},
                        SourceLocation place = SourceLocation::here());
// The divergence of normal distributions, of mean mu and variance exp(logvar), from the standard
// one, as of the codes of a variational autoencoder.
VOLTA_API Tensor gaussian_kl(const Tensor& mu, const Tensor& logvar, LossOptions options = {},
                             SourceLocation place = SourceLocation::here());
// log_probabilities [n, classes], [n, classes, ...] or [classes], and labels of an integer dtype
// in that shape without the classes.
VOLTA_API Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels,
                          const NLLLossOptions& options = {},
                          SourceLocation place = SourceLocation::here());
// Of logits [n, classes], [n, classes, ...] or [classes]; the target is labels of an integer dtype
// in that shape without the classes, or probabilities in that shape.
VOLTA_API Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                               const CrossEntropyOptions& options = {},
                               SourceLocation place = SourceLocation::here());

}  // namespace volta
