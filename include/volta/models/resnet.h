// ResNet as in torchvision, whose checkpoints it loads: residual blocks of two 3x3 convolutions, or
// bottlenecks of three convolutions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/linear.h"
#include "volta/nn/module.h"
#include "volta/nn/sequential.h"

namespace volta::models {

struct ResNetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t width = 64;  // channels of the first stage; each further stage doubles them
  // For images of 32 x 32: the first convolution is 3x3 with stride 1, and no pooling follows.
  bool small_images = false;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

class VOLTA_API BasicBlock : public nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;
  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Sequential downsample;  // empty if the shape does not change
};

class VOLTA_API Bottleneck : public nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;
  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options);
  Tensor forward(const Tensor& x) override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;  // applies the stride
  nn::BatchNorm2d bn2;
  nn::Conv2d conv3;
  nn::BatchNorm2d bn3;
  nn::Sequential downsample;
};

// [n, channels, height, width] -> logits [n, classes].
class VOLTA_API ResNet : public nn::Module {
 public:
  enum class Block : std::uint8_t { basic, bottleneck };
  ResNet(Block block, std::array<int, 4> depths, ResNetOptions options = {});
  Tensor forward(const Tensor& x) override;

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Sequential layer1, layer2, layer3, layer4;
  nn::Linear fc;

 private:
  bool small_images_;
};

VOLTA_API ResNet resnet18(ResNetOptions options = {});
VOLTA_API ResNet resnet34(ResNetOptions options = {});
VOLTA_API ResNet resnet50(ResNetOptions options = {});
VOLTA_API ResNet resnet101(ResNetOptions options = {});

}  // namespace volta::models
