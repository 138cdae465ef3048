// Losses as modules.
#include "volta/nn/loss.h"

#include <utility>

namespace volta::nn {

BCELoss::BCELoss(BinaryCrossEntropyOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) weight_ = add_buffer("weight", options_.weight);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BinaryCrossEntropyWithLogitsOptions options)
    : options_(std::move(options)) {
  if (options_.weight.defined()) weight_ = add_buffer("weight", options_.weight);
  if (options_.pos_weight.defined()) pos_weight_ = add_buffer("pos_weight", options_.pos_weight);
}

NLLLoss::NLLLoss(NLLLossOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) weight_ = add_buffer("weight", options_.weight);
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) weight_ = add_buffer("weight", options_.weight);
}

Tensor MSELoss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  return mse_loss(input, target, options_, place);
}
Tensor L1Loss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  return l1_loss(input, target, options_, place);
}
Tensor SmoothL1Loss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  return smooth_l1_loss(input, target, options_, place);
}
Tensor HuberLoss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  return huber_loss(input, target, options_, place);
}
Tensor BCELoss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  auto options = options_;
  options.weight = weight_;
  return binary_cross_entropy(input, target, options, place);
}
Tensor BCEWithLogitsLoss::operator()(const Tensor& input, const Tensor& target,
                                     SourceLocation place) {
  auto options = options_;
  options.weight = weight_;
  options.pos_weight = pos_weight_;
  return binary_cross_entropy_with_logits(input, target, options, place);
}
Tensor KLDivLoss::operator()(const Tensor& input, const Tensor& target, SourceLocation place) {
  return kl_div(input, target, options_, place);
}
Tensor NLLLoss::operator()(const Tensor& log_probabilities, const Tensor& labels,
                           SourceLocation place) {
  auto options = options_;
  options.weight = weight_;
  return nll_loss(log_probabilities, labels, options, place);
}
Tensor CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& target,
                                    SourceLocation place) {
  auto options = options_;
  options.weight = weight_;
  return cross_entropy(logits, target, options, place);
}

}  // namespace volta::nn
