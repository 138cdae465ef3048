// Mistakes in calls of convolutions, pooling and resizing, whole messages.
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

Tensor f32(const Shape& shape) { return ones(shape, {.device = test_device()}); }
Tensor of(DType dtype, const Shape& shape) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}
const Tensor none;

// ---- Convolutions.

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
struct Named {
  std::string name;
  Convolution call;
  int axes;
};
const Named kConvolutions[] = {
    {"conv1d", [](const Tensor& x, const Tensor& w, const Tensor& b) { return conv1d(x, w, b); },
     1},
    {"conv2d", [](const Tensor& x, const Tensor& w, const Tensor& b) { return conv2d(x, w, b); },
     2},
    {"conv_transpose1d",
     [](const Tensor& x, const Tensor& w, const Tensor& b) { return conv_transpose1d(x, w, b); },
     1},
    {"conv_transpose2d",
     [](const Tensor& x, const Tensor& w, const Tensor& b) { return conv_transpose2d(x, w, b); },
     2},
};
// [2, 4] and spatial sizes, or weights [4, 4] and kernel sizes.
Tensor images(int axes, DType dtype = DType::f32) {
  return axes == 1 ? of(dtype, {2, 4, 6}) : of(dtype, {2, 4, 6, 6});
}
Tensor weights(int axes, DType dtype = DType::f32) {
  return axes == 1 ? of(dtype, {4, 4, 3}) : of(dtype, {4, 4, 3, 3});
}

TEST(ErrorsConvolution, Operands) {
  for (const auto& [name, call, axes] : kConvolutions) {
    const Tensor x = images(axes), w = weights(axes);
    const std::string sx = to_string(x.shape()), sw = to_string(w.shape());
    const std::string needed = ": the input needs " + std::to_string(axes + 1) + " or " +
                               std::to_string(axes + 2) + " axes, the weight " +
                               std::to_string(axes + 2);
    expect<ArgumentError>([&] { call(none, w, none); }, name + ": the input is not a tensor");
    expect<ArgumentError>([&] { call(x, none, none); }, name + ": the weight is not a tensor");
    expect<DTypeError>([&] { call(images(axes, DType::i64), w, none); },
                       name + ": expected a floating-point tensor, got i64");
    expect<DTypeError>([&] { call(x, weights(axes, DType::f16), none); },
                       name + ": input is f32, weight is f16");
    expect<DTypeError>([&] { call(x, w, of(DType::f16, {4})); },
                       name + ": input is f32, bias is f16");
    expect<ShapeError>([&] { call(f32({4}), w, none); }, name + needed + ", got [4] and " + sw);
    expect<ShapeError>([&] { call(x, f32({4, 4}), none); },
                       name + needed + ", got " + sx + " and [4, 4]");
    const Tensor one = axes == 1 ? f32({3, 6}) : f32({3, 6, 6});  // without a batch axis
    expect<ShapeError>([&] { call(one, w, none); },
                       name + ": input " + to_string(one.shape()) + " does not fit weight " + sw);
    const Tensor three = axes == 1 ? f32({2, 3, 6}) : f32({2, 3, 6, 6});
    expect<ShapeError>([&] { call(three, w, none); },
                       name + ": input " + to_string(three.shape()) + " does not fit weight " + sw);
    expect<ShapeError>([&] { call(x, w, f32({3})); },
                       name + ": bias [3] does not fit weight " + sw);
    expect<ShapeError>([&] { call(x, w, f32({1, 4})); },
                       name + ": bias [1, 4] does not fit weight " + sw);
    const Tensor empty = axes == 1 ? f32({4, 4, 0}) : f32({4, 4, 3, 0});
    expect<ShapeError>([&] { call(x, empty, none); },
                       name + ": the kernel " + to_string(empty.shape()) + " is empty");
  }
}

TEST(ErrorsConvolution, Options) {
  const Tensor x = images(2), w = weights(2), line = images(1), k = weights(1);
  expect<ArgumentError>([&] { conv2d(x, w, {}, {.stride = 0}); },
                        "conv2d: the stride must be positive, got 0");
  expect<ArgumentError>([&] { conv2d(x, w, {}, {.stride = {1, -2}}); },
                        "conv2d: the stride must be positive, got {1, -2}");
  expect<ArgumentError>([&] { conv2d(x, w, {}, {.padding = -1}); },
                        "conv2d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { conv2d(x, w, {}, {.dilation = {0, 1}}); },
                        "conv2d: the dilation must be positive, got {0, 1}");
  expect<ArgumentError>([&] { conv2d(x, w, {}, {.groups = 0}); },
                        "conv2d: the number of groups must be positive, got 0");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.stride = 0}); },
                        "conv1d: the stride must be positive, got 0");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.padding = -3}); },
                        "conv1d: the padding must be zero or more, got -3");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.padding = std::int64_t{1} << 62}); },
                        "conv1d: the padding must be below 2^31, got 4611686018427387904");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.dilation = std::int64_t{1} << 33}); },
                        "conv1d: the dilation must be below 2^31, got 8589934592");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.stride = std::int64_t{1} << 31}); },
                        "conv1d: the stride must be below 2^31, got 2147483648");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.dilation = -1}); },
                        "conv1d: the dilation must be positive, got -1");
  expect<ArgumentError>([&] { conv1d(line, k, {}, {.groups = -2}); },
                        "conv1d: the number of groups must be positive, got -2");
  expect<ArgumentError>([&] { conv_transpose2d(x, w, {}, {.stride = {0, 1}}); },
                        "conv_transpose2d: the stride must be positive, got {0, 1}");
  expect<ArgumentError>([&] { conv_transpose2d(x, w, {}, {.padding = -1}); },
                        "conv_transpose2d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { conv_transpose2d(x, w, {}, {.dilation = 0}); },
                        "conv_transpose2d: the dilation must be positive, got 0");
  expect<ArgumentError>([&] { conv_transpose2d(x, w, {}, {.groups = 0}); },
                        "conv_transpose2d: the number of groups must be positive, got 0");
  expect<ArgumentError>([&] { conv_transpose2d(x, w, {}, {.output_padding = -1}); },
                        "conv_transpose2d: the output padding must be zero or more, got -1");
  expect<ArgumentError>(
      [&] { conv_transpose2d(x, w, {}, {.stride = 2, .output_padding = {1, 2}}); },
      "conv_transpose2d: the output padding must be smaller than stride or dilation");
  expect<ArgumentError>([&] { conv_transpose1d(line, k, {}, {.stride = 0}); },
                        "conv_transpose1d: the stride must be positive, got 0");
  expect<ArgumentError>([&] { conv_transpose1d(line, k, {}, {.padding = -1}); },
                        "conv_transpose1d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { conv_transpose1d(line, k, {}, {.dilation = 0}); },
                        "conv_transpose1d: the dilation must be positive, got 0");
  expect<ArgumentError>([&] { conv_transpose1d(line, k, {}, {.groups = 0}); },
                        "conv_transpose1d: the number of groups must be positive, got 0");
  expect<ArgumentError>([&] { conv_transpose1d(line, k, {}, {.output_padding = -1}); },
                        "conv_transpose1d: the output padding must be zero or more, got -1");
  expect<ArgumentError>(
      [&] { conv_transpose1d(line, k, {}, {.output_padding = 1}); },
      "conv_transpose1d: the output padding must be smaller than stride or dilation");
}

TEST(ErrorsConvolution, GroupsAndSizes) {
  const Tensor x = images(2), w = weights(2), line = images(1), k = weights(1);
  expect<ShapeError>(
      [&] { conv2d(x, w, {}, {.groups = 3}); },
      "conv2d: 3 groups do not divide the channels of [2, 4, 6, 6] and [4, 4, 3, 3]");
  expect<ShapeError>([&] { conv2d(x, w, {}, {.groups = 2}); },
                     "conv2d: input [2, 4, 6, 6] does not fit weight [4, 4, 3, 3] in 2 groups");
  expect<ShapeError>([&] { conv1d(line, k, {}, {.groups = 3}); },
                     "conv1d: 3 groups do not divide the channels of [2, 4, 6] and [4, 4, 3]");
  expect<ShapeError>([&] { conv1d(line, k, {}, {.groups = 2}); },
                     "conv1d: input [2, 4, 6] does not fit weight [4, 4, 3] in 2 groups");
  expect<ShapeError>(
      [&] { conv_transpose2d(x, w, {}, {.groups = 3}); },
      "conv_transpose2d: 3 groups do not divide the channels of [2, 4, 6, 6] and [4, 4, 3, 3]");
  expect<ShapeError>(
      [&] { conv_transpose1d(line, k, {}, {.groups = 3}); },
      "conv_transpose1d: 3 groups do not divide the channels of [2, 4, 6] and [4, 4, 3]");
  expect<ShapeError>(
      [&] { conv2d(x, f32({4, 4, 7, 3})); },
      "conv2d: the kernel [4, 4, 7, 3] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ShapeError>(
      [&] { conv2d(x, w, {}, {.dilation = 3}); },
      "conv2d: the kernel [4, 4, 3, 3] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ShapeError>([&] { conv1d(line, f32({4, 4, 7})); },
                     "conv1d: the kernel [4, 4, 7] reaches beyond the padded input [2, 4, 6]");
  expect<ShapeError>([&] { conv_transpose2d(x, w, {}, {.padding = 4}); },
                     "conv_transpose2d: nothing is left of the result of [2, 4, 6, 6]");
  expect<ShapeError>([&] { conv_transpose2d(f32({2, 4, 0, 6}), w); },
                     "conv_transpose2d: nothing is left of the result of [2, 4, 0, 6]");
  expect<ShapeError>([&] { conv_transpose1d(line, k, {}, {.padding = 4}); },
                     "conv_transpose1d: nothing is left of the result of [2, 4, 6]");
}

// ---- Pooling.

TEST(ErrorsPooling, Operands) {
  struct Pool {
    std::string name;
    Tensor (*call)(const Tensor&);
    int axes;
  };
  const Pool pools[] = {
      {"max_pool2d", [](const Tensor& x) { return max_pool2d(x, 2); }, 2},
      {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, 2); }, 2},
      {"adaptive_avg_pool2d", [](const Tensor& x) { return adaptive_avg_pool2d(x, 2); }, 2},
      {"max_pool1d", [](const Tensor& x) { return max_pool1d(x, 2); }, 1},
      {"avg_pool1d", [](const Tensor& x) { return avg_pool1d(x, 2); }, 1},
      {"adaptive_avg_pool1d", [](const Tensor& x) { return adaptive_avg_pool1d(x, 2); }, 1},
  };
  for (const auto& [name, call, axes] : pools) {
    expect<ArgumentError>([&] { call(none); }, name + ": the input is not a tensor");
    expect<DTypeError>([&] { call(images(axes, DType::i32)); },
                       name + ": expected a floating-point tensor, got i32");
    const std::string ranks = axes == 1 ? "2 or 3" : "3 or 4";
    const Shape shapes[] = {{6}, axes == 1 ? Shape{2, 4, 6, 6} : Shape{2, 2, 4, 6, 6}};
    for (const Shape& shape : shapes) {
      expect<ShapeError>([&] { call(f32(shape)); },
                         name + ": the input needs " + ranks + " axes, got " + to_string(shape));
    }
    const Shape empty = axes == 1 ? Shape{2, 4, 0} : Shape{2, 4, 0, 6};
    expect<ShapeError>([&] { call(f32(empty)); },
                       name + ": the images of " + to_string(empty) + " are empty");
  }
}

TEST(ErrorsPooling, Options) {
  const Tensor x = images(2), line = images(1);
  expect<ArgumentError>([&] { max_pool2d(x, 0); },
                        "max_pool2d: the kernel must be positive, got 0");
  expect<ArgumentError>([&] { max_pool2d(x, {2, -1}); },
                        "max_pool2d: the kernel must be positive, got {2, -1}");
  expect<ArgumentError>([&] { max_pool2d(x, 2, {.stride = -1}); },
                        "max_pool2d: the stride must be positive, got -1");
  expect<ArgumentError>([&] { max_pool2d(x, 2, {.stride = {0, 2}}); },
                        "max_pool2d: the stride must be positive, got {0, 2}");
  expect<ArgumentError>([&] { max_pool2d(x, 2, {.padding = -1}); },
                        "max_pool2d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { max_pool2d(x, 2, {.dilation = 0}); },
                        "max_pool2d: the dilation must be positive, got 0");
  expect<ArgumentError>([&] { max_pool2d(x, {2, 3}, {.padding = {0, 2}}); },
                        "max_pool2d: the padding [0, 2] is more than half of the window [2, 3]");
  expect<ShapeError>([&] { max_pool2d(x, 7); },
                     "max_pool2d: the window [7, 7] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ShapeError>([&] { max_pool2d(x, {2, 4}, {.dilation = 3}); },
                     "max_pool2d: the window [2, 4] reaches beyond the padded input [2, 4, 6, 6]");
  const std::int64_t far = std::int64_t{1} << 62;
  expect<ShapeError>([&] { max_pool2d(x, 3, {.dilation = far}); },
                     "max_pool2d: the window [3, 3] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ShapeError>([&] { max_pool2d(x, 9, {.stride = 2, .ceil_mode = true}); },
                     "max_pool2d: the window [9, 9] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ArgumentError>([&] { max_pool1d(line, 0); },
                        "max_pool1d: the kernel must be positive, got 0");
  expect<ArgumentError>([&] { max_pool1d(line, 2, {.stride = -1}); },
                        "max_pool1d: the stride must be positive, got -1");
  expect<ArgumentError>([&] { max_pool1d(line, 2, {.padding = -1}); },
                        "max_pool1d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { max_pool1d(line, 2, {.padding = 2}); },
                        "max_pool1d: the padding 2 is more than half of the window 2");
  expect<ArgumentError>([&] { max_pool1d(line, 2, {.dilation = 0}); },
                        "max_pool1d: the dilation must be positive, got 0");
  expect<ShapeError>([&] { max_pool1d(line, 7); },
                     "max_pool1d: the window 7 reaches beyond the padded input [2, 4, 6]");
  expect<ArgumentError>([&] { avg_pool2d(x, 0); },
                        "avg_pool2d: the kernel must be positive, got 0");
  expect<ArgumentError>([&] { avg_pool2d(x, 2, {.stride = -1}); },
                        "avg_pool2d: the stride must be positive, got -1");
  expect<ArgumentError>([&] { avg_pool2d(x, 2, {.padding = -1}); },
                        "avg_pool2d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { avg_pool2d(x, 2, {.padding = 2}); },
                        "avg_pool2d: the padding [2, 2] is more than half of the window [2, 2]");
  expect<ShapeError>([&] { avg_pool2d(x, 7); },
                     "avg_pool2d: the window [7, 7] reaches beyond the padded input [2, 4, 6, 6]");
  expect<ArgumentError>([&] { avg_pool1d(line, -1); },
                        "avg_pool1d: the kernel must be positive, got -1");
  expect<ArgumentError>([&] { avg_pool1d(line, 2, {.stride = -1}); },
                        "avg_pool1d: the stride must be positive, got -1");
  expect<ArgumentError>([&] { avg_pool1d(line, 2, {.padding = -1}); },
                        "avg_pool1d: the padding must be zero or more, got -1");
  expect<ArgumentError>([&] { avg_pool1d(line, 3, {.padding = 2}); },
                        "avg_pool1d: the padding 2 is more than half of the window 3");
  expect<ShapeError>([&] { avg_pool1d(line, 7); },
                     "avg_pool1d: the window 7 reaches beyond the padded input [2, 4, 6]");
  expect<ArgumentError>([&] { adaptive_avg_pool2d(x, 0); },
                        "adaptive_avg_pool2d: the size must be positive, got 0");
  expect<ArgumentError>([&] { adaptive_avg_pool2d(x, {2, 0}); },
                        "adaptive_avg_pool2d: the size must be positive, got {2, 0}");
  expect<ArgumentError>([&] { adaptive_avg_pool1d(line, -2); },
                        "adaptive_avg_pool1d: the size must be positive, got -2");
}

// ---- Resizing.

TEST(ErrorsPooling, Interpolate) {
  const Tensor x = images(2);
  expect<ArgumentError>([&] { interpolate(none, {.size = 2}); },
                        "interpolate: the input is not a tensor");
  expect<DTypeError>([&] { interpolate(images(2, DType::i64), {.size = 2}); },
                     "interpolate: expected a floating-point tensor, got i64");
  expect<ShapeError>([&] { interpolate(images(1), {.size = 2}); },
                     "interpolate: the input needs 4 axes, got [2, 4, 6]");
  expect<ShapeError>([&] { interpolate(f32({2, 4, 6, 0}), {.size = 2}); },
                     "interpolate: the images of [2, 4, 6, 0] are empty");
  expect<ArgumentError>([&] { interpolate(x, {}); },
                        "interpolate: either the size or the scale must be given");
  expect<ArgumentError>([&] { interpolate(x, {.size = 2, .scale = 2}); },
                        "interpolate: either the size or the scale must be given");
  expect<ArgumentError>([&] { interpolate(x, {.size = -2}); },
                        "interpolate: the size must be positive, got -2");
  expect<ArgumentError>([&] { interpolate(x, {.size = {2, 0}}); },
                        "interpolate: the size must be positive, got {2, 0}");
  expect<ArgumentError>([&] { interpolate(x, {.scale = -1.5}); },
                        "interpolate: the scale -1.5 of [2, 4, 6, 6] gives no size");
  expect<ArgumentError>([&] { interpolate(x, {.scale = {2, 1e300}}); },
                        "interpolate: the scale 1e+300 of [2, 4, 6, 6] gives no size");
  expect<ShapeError>([&] { interpolate(x, {.scale = {1, 0.1}}); },
                     "interpolate: nothing is left of [2, 4, 6, 6] scaled by 0.1");
  expect<ArgumentError>([&] { interpolate(x, {.size = 2, .align_corners = true}); },
                        "interpolate: align_corners is of the mode bilinear");
}

TEST(ErrorsPooling, PixelShuffle) {
  const Tensor x = images(2);
  expect<ArgumentError>([&] { pixel_shuffle(none, 2); },
                        "pixel_shuffle: the input is not a tensor");
  expect<ArgumentError>([&] { pixel_unshuffle(none, 2); },
                        "pixel_unshuffle: the input is not a tensor");
  expect<ArgumentError>([&] { pixel_shuffle(x, 0); },
                        "pixel_shuffle: the factor must be positive, got 0");
  expect<ArgumentError>([&] { pixel_unshuffle(x, -2); },
                        "pixel_unshuffle: the factor must be positive, got -2");
  expect<ShapeError>([&] { pixel_shuffle(f32({4, 4}), 2); },
                     "pixel_shuffle: the input needs at least 3 axes, got [4, 4]");
  expect<ShapeError>([&] { pixel_unshuffle(f32({4, 4}), 2); },
                     "pixel_unshuffle: the input needs at least 3 axes, got [4, 4]");
  expect<ShapeError>([&] { pixel_shuffle(f32({2, 6, 3, 3}), 2); },
                     "pixel_shuffle: blocks of 2 x 2 do not divide the channels of [2, 6, 3, 3]");
  expect<ShapeError>([&] { pixel_unshuffle(x, 4); },
                     "pixel_unshuffle: blocks of 4 x 4 do not divide the images of [2, 4, 6, 6]");
}

}  // namespace
}  // namespace volta::errors
