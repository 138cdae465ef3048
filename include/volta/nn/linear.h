// Linear: y = x Wᵀ + b over the last axis.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct LinearOptions {
  bool bias = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

class VOLTA_API Linear : public Module {
 public:
  // Weight and bias start uniform within ±1 / sqrt(in_features).
  Linear(std::int64_t in_features, std::int64_t out_features, LinearOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [out_features, in_features]
  Parameter bias;    // [out_features]; undefined if disabled
};

}  // namespace volta::nn
