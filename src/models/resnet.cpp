// ResNet.
#include "volta/models/resnet.h"

#include <string>

#include "nn/arguments.h"
#include "volta/nn/init.h"
#include "volta/ops.h"
#include "volta/pooling.h"

namespace volta::models {

namespace {

// Batch norm follows, so there is no bias. Weights get Kaiming's initial values for ReLU by fan
// out.
nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                const ResNetOptions& options) {
  nn::Conv2d made(in, out, kernel,
                  {.stride = stride,
                   .padding = kernel / 2,
                   .bias = false,
                   .dtype = options.dtype,
                   .device = options.device});
  nn::init::kaiming_normal_(
      made.weight, {.mode = nn::init::Fan::out, .nonlinearity = nn::init::Nonlinearity::relu});
  return made;
}

nn::BatchNorm2d norm(std::int64_t channels, const ResNetOptions& options) {
  return nn::BatchNorm2d(channels, {.dtype = options.dtype, .device = options.device});
}

void fit_shortcut(nn::Sequential& downsample, std::int64_t in, std::int64_t out,
                  std::int64_t stride, const ResNetOptions& options) {
  if (stride == 1 && in == out) return;
  downsample.append(conv(in, out, 1, stride, options)).append(norm(out, options));
}

// Returns the width after checking all sizes, so that no layer is built from a bad one.
std::int64_t checked_width(const std::array<int, 4>& depths, const ResNetOptions& options) {
  constexpr std::int64_t kMaxWidth = 1 << 24, kMaxDepth = 1000;
  nn::require_range("ResNet", "width", options.width, 1, kMaxWidth);
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const std::string name = "depths[" + std::to_string(i) + "]";
    nn::require_range("ResNet", name.c_str(), depths[i], 1, kMaxDepth);
  }
  return options.width;
}

template <class Block>
void fill(nn::Sequential& layer, std::int64_t& in, std::int64_t width, int depth,
          std::int64_t stride, const ResNetOptions& options) {
  for (int i = 0; i < depth; ++i) {
    layer.append(Block(in, width, i == 0 ? stride : 1, options));
    in = width * Block::kExpansion;
  }
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
                       const ResNetOptions& options)
    : conv1(conv(in, width, 3, stride, options)),
      bn1(norm(width, options)),
      conv2(conv(width, width, 3, 1, options)),
      bn2(norm(width, options)) {
  fit_shortcut(downsample, in, width, stride, options);
  add("conv1", conv1);
  add("bn1", bn1);
  add("conv2", conv2);
  add("bn2", bn2);
  add("downsample", downsample);
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2(conv2(bn1(conv1(x)).relu()));
  return (y + downsample(x)).relu();
}

Bottleneck::Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
                       const ResNetOptions& options)
    : conv1(conv(in, width, 1, 1, options)),
      bn1(norm(width, options)),
      conv2(conv(width, width, 3, stride, options)),
      bn2(norm(width, options)),
      conv3(conv(width, width * kExpansion, 1, 1, options)),
      bn3(norm(width * kExpansion, options)) {
  fit_shortcut(downsample, in, width * kExpansion, stride, options);
  add("conv1", conv1);
  add("bn1", bn1);
  add("conv2", conv2);
  add("bn2", bn2);
  add("conv3", conv3);
  add("bn3", bn3);
  add("downsample", downsample);
}

Tensor Bottleneck::forward(const Tensor& x) {
  Tensor y = bn1(conv1(x)).relu();
  y = bn3(conv3(bn2(conv2(y)).relu()));
  return (y + downsample(x)).relu();
}

ResNet::ResNet(Block block, std::array<int, 4> depths, ResNetOptions options)
    : conv1(conv(options.channels, checked_width(depths, options), options.small_images ? 3 : 7,
                 options.small_images ? 1 : 2, options)),
      bn1(norm(options.width, options)),
      fc(8 * options.width *
             (block == Block::basic ? BasicBlock::kExpansion : Bottleneck::kExpansion),
         options.classes, {.dtype = options.dtype, .device = options.device}),
      small_images_(options.small_images) {
  add("conv1", conv1);
  add("bn1", bn1);
  std::int64_t channels = options.width;
  const std::array<nn::Sequential*, 4> layers{&layer1, &layer2, &layer3, &layer4};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t width = options.width << i, stride = i == 0 ? 1 : 2;
    if (block == Block::basic) {
      fill<BasicBlock>(*layers[i], channels, width, depths[i], stride, options);
    } else {
      fill<Bottleneck>(*layers[i], channels, width, depths[i], stride, options);
    }
    add("layer" + std::to_string(i + 1), *layers[i]);
  }
  add("fc", fc);
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor h = bn1(conv1(x)).relu();
  if (!small_images_) h = max_pool2d(h, 3, {.stride = 2, .padding = 1});
  h = layer4(layer3(layer2(layer1(h))));
  return fc(h.mean({2, 3}));
}

ResNet resnet18(ResNetOptions options) {
  return ResNet(ResNet::Block::basic, {2, 2, 2, 2}, options);
}
ResNet resnet34(ResNetOptions options) {
  return ResNet(ResNet::Block::basic, {3, 4, 6, 3}, options);
}
ResNet resnet50(ResNetOptions options) {
  return ResNet(ResNet::Block::bottleneck, {3, 4, 6, 3}, options);
}
ResNet resnet101(ResNetOptions options) {
  return ResNet(ResNet::Block::bottleneck, {3, 4, 23, 3}, options);
}

}  // namespace volta::models
