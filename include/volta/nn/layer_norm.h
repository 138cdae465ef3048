// LayerNorm: normalises the last axes to mean 0 and variance 1, then applies a learned scale and
// shift.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"

namespace volta::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;  // adds a bias if elementwise_affine is set
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

class VOLTA_API LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized, LayerNormOptions options = {});
  explicit LayerNorm(std::int64_t last, LayerNormOptions options = {});
  Tensor forward(const Tensor& x) override;

  // Has the normalized shape, initially ones; undefined without elementwise_affine.
  Parameter weight;
  Parameter bias;  // has the normalized shape, initially zeros

 private:
  Shape normalized_;
  double eps_;
};

}  // namespace volta::nn
