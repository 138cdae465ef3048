// VGG as in torchvision, whose checkpoints it loads, with a smaller head for small images.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"
#include "volta/nn/sequential.h"

namespace volta::models {

struct VGGOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  bool batch_norm = false;
  // For images of 32 x 32: one linear layer on the remaining 512 features instead of three layers.
  bool small_images = false;
  double dropout = 0.5;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// [n, channels, height, width] -> logits [n, classes].
class VOLTA_API VGG : public nn::Module {
 public:
  // `layers` is 11, 13, 16 or 19.
  explicit VGG(int layers, VGGOptions options = {});
  Tensor forward(const Tensor& x) override;

  nn::Sequential features, classifier;

 private:
  bool small_images_;
};

}  // namespace volta::models
