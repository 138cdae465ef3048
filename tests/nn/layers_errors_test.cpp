// Errors of layers when they are constructed and when they are called, with whole messages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/test_device.h"
#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/norm.h"
#include "volta/nn/pooling.h"
#include "volta/nn/shape_layers.h"
#include "volta/volta.h"

namespace volta {
namespace {

// Returns the message of the error of type E, and no other, that `act` throws.
template <class E, class Act>
std::string refused(Act act) {
  try {
    act();
  } catch (const E& error) {
    return error.what();
  } catch (const Error& error) {
    return std::string("another error: ") + error.what();
  }
  return "nothing was thrown";
}

template <class Act>
std::string argument(Act act) {
  return refused<ArgumentError>(act);
}
template <class Act>
std::string shape(Act act) {
  return refused<ShapeError>(act);
}

TEST(LayerErrors, Convolutions) {
  EXPECT_EQ(argument([] { nn::Conv1d(0, 1, 1); }), "Conv1d: in_channels must be positive, got 0");
  EXPECT_EQ(argument([] { nn::Conv2d(1, -2, 1); }),
            "Conv2d: out_channels must be positive, got -2");
  EXPECT_EQ(argument([] { nn::Conv2d(4, 6, 3, {.groups = 0}); }),
            "Conv2d: the number of groups must be positive, got 0");
  EXPECT_EQ(argument([] { nn::Conv2d(4, 6, 3, {.groups = 4}); }),
            "Conv2d: 4 groups do not divide 4 and 6 channels");
  EXPECT_EQ(argument([] { nn::ConvTranspose2d(3, 6, 3, {.groups = 2}); }),
            "ConvTranspose2d: 2 groups do not divide 3 and 6 channels");
  EXPECT_EQ(argument([] { nn::Conv2d(1, 1, {3, 0}); }),
            "Conv2d: kernel_size must be positive, got {3, 0}");
  EXPECT_EQ(argument([] { nn::Conv1d(1, 1, 3, {.stride = 0}); }),
            "Conv1d: the stride must be positive, got 0");
  EXPECT_EQ(argument([] { nn::Conv2d(1, 1, 3, {.padding = {0, -1}}); }),
            "Conv2d: the padding must be zero or more, got {0, -1}");
  EXPECT_EQ(argument([] { nn::ConvTranspose1d(1, 1, 3, {.dilation = 0}); }),
            "ConvTranspose1d: the dilation must be positive, got 0");
  EXPECT_EQ(argument([] { nn::ConvTranspose2d(1, 1, 3, {.output_padding = -1}); }),
            "ConvTranspose2d: output_padding must be zero or more, got -1");
  EXPECT_EQ(argument([] { nn::Conv2d(1, 1, 3, {.stride = {1, 2}, .padding = nn::Padding::same}); }),
            "Conv2d: Padding::same needs a stride of 1");

  EXPECT_EQ(shape([] { nn::Conv1d(3, 4, 3)(ones({2, 4, 9})); }),
            "Conv1d: expected [n, 3, length] or [3, length], got [2, 4, 9]");
  EXPECT_EQ(shape([] { nn::Conv2d(4, 4, 3, {.groups = 2})(ones({2, 2, 9, 9})); }),
            "Conv2d: expected [n, 4, height, width] or [4, height, width], got [2, 2, 9, 9]");
  EXPECT_EQ(shape([] { nn::Conv2d(3, 4, 3)(ones({3, 9})); }),
            "Conv2d: expected [n, 3, height, width] or [3, height, width], got [3, 9]");
  EXPECT_EQ(shape([] { nn::ConvTranspose1d(3, 4, 3)(ones({2, 4, 9})); }),
            "ConvTranspose1d: expected [n, 3, length] or [3, length], got [2, 4, 9]");
  EXPECT_EQ(shape([] { nn::ConvTranspose2d(3, 4, 3)(ones({2, 4, 9, 9})); }),
            "ConvTranspose2d: expected [n, 3, height, width] or [3, height, width], got "
            "[2, 4, 9, 9]");
  EXPECT_EQ(argument([] { nn::Conv2d(3, 4, 3)(Tensor()); }), "Conv2d: the input is not a tensor");
  EXPECT_EQ(shape([] {
              nn::Conv1d(1, 1, 3, {.padding = 4, .padding_mode = nn::PaddingMode::circular})(
                  ones({1, 1, 3}));
            }),
            "Conv1d: circular padding of 4 is longer than an axis of [1, 1, 3]");
  EXPECT_EQ(
      refused<DTypeError>([] { nn::Conv2d(1, 1, 1)(ones({1, 1, 2, 2}, {.dtype = DType::f64})); }),
      "conv2d: input is f64, weight is f32");
}

TEST(LayerErrors, Pools) {
  EXPECT_EQ(argument([] { nn::MaxPool2d(0); }), "MaxPool2d: kernel_size must be positive, got 0");
  EXPECT_EQ(argument([] { nn::MaxPool1d(2, {.stride = -1}); }),
            "MaxPool1d: the stride must be positive, got -1");
  EXPECT_EQ(argument([] { nn::AvgPool2d(2, {.padding = -1}); }),
            "AvgPool2d: the padding must be zero or more, got -1");
  EXPECT_EQ(argument([] { nn::AvgPool1d(3, {.padding = 2}); }),
            "AvgPool1d: the padding must be at most half of kernel_size");
  EXPECT_EQ(argument([] { nn::MaxPool2d(2, {.dilation = {1, 0}}); }),
            "MaxPool2d: the dilation must be positive, got {1, 0}");
  EXPECT_EQ(argument([] { nn::AdaptiveAvgPool1d(0); }),
            "AdaptiveAvgPool1d: output_size must be positive, got 0");
  EXPECT_EQ(argument([] { nn::AdaptiveAvgPool2d({2, -1}); }),
            "AdaptiveAvgPool2d: output_size must be zero or more, got {2, -1}");
  EXPECT_EQ(shape([] { nn::AdaptiveAvgPool2d(2)(ones({2})); }),
            "adaptive_avg_pool2d: the input needs 3 or 4 axes, got [2]");
  EXPECT_EQ(shape([] { nn::MaxPool2d(2)(ones({2, 2})); }),
            "max_pool2d: the input needs 3 or 4 axes, got [2, 2]");
}

TEST(LayerErrors, Norms) {
  EXPECT_EQ(argument([] { nn::BatchNorm1d(0); }),
            "BatchNorm1d: num_features must be positive, got 0");
  EXPECT_EQ(argument([] { nn::BatchNorm2d(1, {.eps = -1}); }),
            "BatchNorm2d: eps must not be negative, got -1");
  EXPECT_EQ(
      argument([] { nn::BatchNorm2d(1, {.momentum = std::numeric_limits<double>::infinity()}); }),
      "BatchNorm2d: the momentum must be finite, got inf");
  EXPECT_EQ(argument([] { nn::GroupNorm(4, 6); }),
            "GroupNorm: 6 channels are no multiple of 4 groups");
  EXPECT_EQ(argument([] { nn::GroupNorm(0, 6); }), "GroupNorm: num_groups must be positive, got 0");
  EXPECT_EQ(argument([] { nn::InstanceNorm2d(-1); }),
            "InstanceNorm2d: num_features must be positive, got -1");
  EXPECT_EQ(argument([] { nn::InstanceNorm2d(1, {.momentum = std::nan("")}); }),
            "InstanceNorm2d: the momentum must be finite, got nan");
  EXPECT_EQ(argument([] { nn::RMSNorm(0); }), "RMSNorm: nothing to normalize over in shape [0]");
  EXPECT_EQ(argument([] { nn::RMSNorm(2, {.eps = -1}); }),
            "RMSNorm: eps must not be negative, got -1");

  EXPECT_EQ(shape([] { nn::BatchNorm1d(3)(ones({2, 3, 4, 5})); }),
            "BatchNorm1d: expected [n, 3] or [n, 3, length], got [2, 3, 4, 5]");
  EXPECT_EQ(shape([] { nn::BatchNorm1d(3)(ones({3, 2})); }),
            "BatchNorm1d: expected [n, 3] or [n, 3, length], got [3, 2]");
  EXPECT_EQ(shape([] { nn::BatchNorm2d(3)(ones({3, 4, 5})); }),
            "BatchNorm2d: expected [n, 3, height, width], got [3, 4, 5]");
  EXPECT_EQ(shape([] { nn::BatchNorm2d(3)(ones({2, 4, 5, 5})); }),
            "BatchNorm2d: expected [n, 3, height, width], got [2, 4, 5, 5]");
  EXPECT_EQ(argument([] { nn::BatchNorm2d(3)(ones({1, 3, 1, 1})); }),
            "batch_norm: expected more than 1 value per channel, got [1, 3, 1, 1]");
  EXPECT_EQ(shape([] { nn::GroupNorm(2, 4)(ones({2, 6})); }),
            "GroupNorm: expected [n, 4, ...], got [2, 6]");
  EXPECT_EQ(shape([] { nn::InstanceNorm2d(3)(ones({2, 4, 5, 5})); }),
            "InstanceNorm2d: expected [n, 3, height, width] or [3, height, width], got "
            "[2, 4, 5, 5]");
  EXPECT_EQ(
      argument([] { nn::InstanceNorm2d(3, {.track_running_stats = true})(ones({2, 3, 1, 1})); }),
      "InstanceNorm2d: expected more than 1 value per channel, got [2, 3, 1, 1]");
  EXPECT_EQ(shape([] { nn::RMSNorm({3, 4})(ones({4})); }),
            "RMSNorm: [3, 4] are not the last sizes of [4]");
  EXPECT_EQ(refused<DTypeError>([] { nn::RMSNorm(2)(ones({2}, {.dtype = DType::i64})); }),
            "RMSNorm: expected a floating-point tensor, got i64");
}

TEST(LayerErrors, Others) {
  EXPECT_EQ(argument([] { nn::Dropout2d(-0.5); }), "Dropout2d: p must be in [0, 1], got -0.5");
  EXPECT_EQ(shape([] { nn::Dropout2d()(ones({2, 2})); }),
            "Dropout2d: expected [n, channels, height, width] or [n, channels, length], got "
            "[2, 2]");
  EXPECT_EQ(argument([] { nn::Unflatten(1, {}); }), "Unflatten: there must be sizes");
  EXPECT_EQ(argument([] { nn::Unflatten(1, {-1, 2, -1}); }), "Unflatten: only one size can be -1");
  EXPECT_EQ(argument([] { nn::PixelShuffle(0); }),
            "PixelShuffle: upscale_factor must be positive, got 0");
  EXPECT_EQ(argument([] { nn::PixelUnshuffle(-2); }),
            "PixelUnshuffle: downscale_factor must be positive, got -2");
  EXPECT_EQ(argument([] { nn::Upsample({}); }),
            "Upsample: either the size or the scale must be given");
  EXPECT_EQ(argument([] { nn::Upsample({.size = 2, .scale = 2}); }),
            "Upsample: either the size or the scale must be given");
  EXPECT_EQ(argument([] { nn::Upsample({.scale = 2, .align_corners = true}); }),
            "Upsample: align_corners is of the mode bilinear");
  EXPECT_EQ(argument([] { nn::PReLU(0); }), "PReLU: num_parameters must be positive, got 0");
  EXPECT_EQ(shape([] { nn::PReLU(3)(ones({2, 4})); }), "PReLU: expected [n, 3, ...], got [2, 4]");
  EXPECT_EQ(argument([] { nn::Hardtanh(1, 1); }), "Hardtanh: min_val 1 is not below max_val 1");
  EXPECT_EQ(shape([] { nn::GLU()(ones({2, 3})); }), "GLU: axis -1 of [2, 3] has no halves");
}

}  // namespace
}  // namespace volta
