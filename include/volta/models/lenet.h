// LeNet-5 with ReLU and max pooling, for images of 28 x 28.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/conv.h"
#include "volta/nn/linear.h"
#include "volta/nn/module.h"

namespace volta::models {

struct LeNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// [n, channels, 28, 28] -> logits [n, classes].
class VOLTA_API LeNet : public nn::Module {
 public:
  explicit LeNet(LeNetOptions options = {});
  Tensor forward(const Tensor& x) override;

  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
};

}  // namespace volta::models
