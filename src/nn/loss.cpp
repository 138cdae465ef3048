// Losses as modules.
#include "volta/nn/loss.h"

#include <utility>

namespace volta::nn {

BCELoss::BCELoss(BinaryCrossEntropyOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) options_.weight = add_buffer("weight", options_.weight);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BinaryCrossEntropyWithLogitsOptions options)
    : options_(std::move(options)) {
  if (options_.weight.defined()) options_.weight = add_buffer("weight", options_.weight);
  if (options_.pos_weight.defined())
    options_.pos_weight = add_buffer("pos_weight", options_.pos_weight);
}

NLLLoss::NLLLoss(NLLLossOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) options_.weight = add_buffer("weight", options_.weight);
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options) : options_(std::move(options)) {
  if (options_.weight.defined()) options_.weight = add_buffer("weight", options_.weight);
}

Tensor MSELoss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return mse_loss(input, target, options_, place);
}
Tensor L1Loss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return l1_loss(input, target, options_, place);
}
Tensor SmoothL1Loss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return smooth_l1_loss(input, target, options_, place);
}
Tensor HuberLoss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return huber_loss(input, target, options_, place);
}
Tensor BCELoss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return binary_cross_entropy(input, target, options_, place);
}
Tensor BCEWithLogitsLoss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return binary_cross_entropy_with_logits(input, target, options_, place);
}
Tensor KLDivLoss::operator()(const Tensor& input, const Tensor& target, Place place) {
  return kl_div(input, target, options_, place);
}
Tensor NLLLoss::operator()(const Tensor& log_probabilities, const Tensor& labels, Place place) {
  return nll_loss(log_probabilities, labels, options_, place);
}
Tensor CrossEntropyLoss::operator()(const Tensor& logits, const Tensor& target, Place place) {
  return cross_entropy(logits, target, options_, place);
}

}  // namespace volta::nn
