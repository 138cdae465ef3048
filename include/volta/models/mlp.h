// MLP: linear layers with an activation between them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "volta/nn/module.h"
#include "volta/nn/sequential.h"

namespace volta::models {

enum class Activation : std::uint8_t { relu, tanh, gelu, silu };

struct MLPOptions {
  Activation activation = Activation::relu;
  double dropout = 0;  // after each activation
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// The sizes {784, 256, 10} make two layers. All axes of the input but the first are flattened.
class VOLTA_API MLP : public nn::Module {
 public:
  explicit MLP(const std::vector<std::int64_t>& sizes, MLPOptions options = {});
  Tensor forward(const Tensor& x) override;

  nn::Sequential layers;  // keys layers.0.weight, layers.0.bias, layers.2.weight, ...
};

}  // namespace volta::models
