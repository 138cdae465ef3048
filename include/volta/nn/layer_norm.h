// LayerNorm: mean 0 and variance 1 over the last axes, then a learned scale and shift.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;  // of the affine part
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

class VOLTA_API LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized, LayerNormOptions options = {});
  explicit LayerNorm(std::int64_t last, LayerNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // of the normalized shape, ones at first; undefined without elementwise_affine
  Parameter bias;    // likewise, zeros at first

 private:
  Shape normalized_;
  double eps_;
};

}  // namespace volta::nn
