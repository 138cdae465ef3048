// Losses as modules. Each one is the function of the same name in losses.h. Weights are buffers, so
// they move with the module and are part of its state.
#pragma once

#include "volta/losses.h"
#include "volta/nn/module.h"

namespace volta::nn {

class VOLTA_API MSELoss : public Module {
 public:
  explicit MSELoss(LossOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  LossOptions options_;
};

class VOLTA_API L1Loss : public Module {
 public:
  explicit L1Loss(LossOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  LossOptions options_;
};

class VOLTA_API SmoothL1Loss : public Module {
 public:
  explicit SmoothL1Loss(SmoothL1LossOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  SmoothL1LossOptions options_;
};

class VOLTA_API HuberLoss : public Module {
 public:
  explicit HuberLoss(HuberLossOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  HuberLossOptions options_;
};

class VOLTA_API BCELoss : public Module {
 public:
  explicit BCELoss(BinaryCrossEntropyOptions options = {});
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  BinaryCrossEntropyOptions options_;
  Buffer weight_;
};

class VOLTA_API BCEWithLogitsLoss : public Module {
 public:
  explicit BCEWithLogitsLoss(BinaryCrossEntropyWithLogitsOptions options = {});
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  BinaryCrossEntropyWithLogitsOptions options_;
  Buffer weight_, pos_weight_;
};

class VOLTA_API KLDivLoss : public Module {
 public:
  explicit KLDivLoss(KLDivOptions options = {}) : options_(options) {}
  Tensor operator()(const Tensor& input, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  KLDivOptions options_;
};

class VOLTA_API NLLLoss : public Module {
 public:
  explicit NLLLoss(NLLLossOptions options = {});
  Tensor operator()(const Tensor& log_probabilities, const Tensor& labels,
                    SourceLocation place = SourceLocation::here());

 private:
  NLLLossOptions options_;
  Buffer weight_;
};

class VOLTA_API CrossEntropyLoss : public Module {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {});
  Tensor operator()(const Tensor& logits, const Tensor& target,
                    SourceLocation place = SourceLocation::here());

 private:
  CrossEntropyOptions options_;
  Buffer weight_;
};

}  // namespace volta::nn
