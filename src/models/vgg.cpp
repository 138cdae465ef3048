// VGG.
#include "volta/models/vgg.h"

#include <array>

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/nn/activation.h"
#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/dropout.h"
#include "volta/nn/init.h"
#include "volta/nn/linear.h"
#include "volta/nn/pooling.h"
#include "volta/pooling.h"

namespace volta::models {

namespace {

// The five stages have 64, 128, 256, 512 and 512 channels; this is their number of convolutions.
std::array<int, 5> stages_of(int layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw ArgumentError(fmt::format("VGG: 11, 13, 16 or 19 layers, got {}", layers));
  }
}

}  // namespace

VGG::VGG(int layers, VGGOptions options) : small_images_(options.small_images) {
  constexpr std::array<std::int64_t, 5> kChannels{64, 128, 256, 512, 512};
  const std::array<int, 5> stages = stages_of(layers);
  std::int64_t in = options.channels;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      const std::int64_t out = kChannels[stage];
      nn::Conv2d conv(in, out, 3, {.padding = 1, .dtype = options.dtype, .device = options.device});
      nn::init::kaiming_normal_(
          conv.weight, {.mode = nn::init::Fan::out, .nonlinearity = nn::init::Nonlinearity::relu});
      nn::init::constant_(conv.bias, 0);
      features.append(conv);
      if (options.batch_norm) {
        features.append(nn::BatchNorm2d(out, {.dtype = options.dtype, .device = options.device}));
      }
      features.append(nn::ReLU());
      in = out;
    }
    features.append(nn::MaxPool2d(2));
  }
  const auto linear = [&](std::int64_t inputs, std::int64_t outputs) {
    nn::Linear made(inputs, outputs, {.dtype = options.dtype, .device = options.device});
    nn::init::normal_(made.weight, 0, 0.01);
    nn::init::constant_(made.bias, 0);
    return made;
  };
  if (small_images_) {
    classifier.append(linear(512, options.classes));
  } else {
    classifier.append(linear(512 * 7 * 7, 4096))
        .append(nn::ReLU())
        .append(nn::Dropout(options.dropout))
        .append(linear(4096, 4096))
        .append(nn::ReLU())
        .append(nn::Dropout(options.dropout))
        .append(linear(4096, options.classes));
  }
  add("features", features);
  add("classifier", classifier);
}

Tensor VGG::forward(const Tensor& x) {
  const Tensor h = features(x);
  return classifier(adaptive_avg_pool2d(h, small_images_ ? 1 : 7).flatten(1));
}

}  // namespace volta::models
