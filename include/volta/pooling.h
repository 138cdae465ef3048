// Pooling and resizing of images as in PyTorch. Images are [n, channels, height, width]; n may be
// missing.
#pragma once

#include <cstdint>

#include "volta/convolution.h"
#include "volta/tensor.h"

namespace volta {

struct MaxPool2dOptions {
  Extent2 stride = 0;   // 0 stands for the kernel's size
  Extent2 padding = 0;  // padded with -inf; at most half a window
  Extent2 dilation = 1;
  bool ceil_mode = false;  // includes windows that reach beyond the end
};
struct MaxPool1dOptions {
  std::int64_t stride = 0;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;
};
struct AvgPool2dOptions {
  Extent2 stride = 0;  // 0 stands for the kernel's size
  Extent2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // zeros of the padding count in the mean
};
struct AvgPool1dOptions {
  std::int64_t stride = 0;
  std::int64_t padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};

// One factor for both directions, or {height, width}.
struct Factor2 {
  double height = 0, width = 0;
  constexpr Factor2(double both) : height(both), width(both) {}  // NOLINT: implicit
  constexpr Factor2(double h, double w) : height(h), width(w) {}
  friend constexpr bool operator==(Factor2, Factor2) = default;
};
enum class InterpolateMode : std::uint8_t { nearest, bilinear };
struct InterpolateOptions {
  Extent2 size = 0;   // size of the result, or
  Factor2 scale = 0;  // factor on the size of the image
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;  // bilinear: aligns the corner pixels' centres, not their edges
};

// ---- Pooling.

// The largest element of each window. The gradient goes to its first occurrence, and NaN counts as
// the largest.
VOLTA_API Tensor max_pool2d(const Tensor& x, Extent2 kernel, MaxPool2dOptions options = {},
                            SourceLocation place = SourceLocation::here());
// The mean of each window.
VOLTA_API Tensor avg_pool2d(const Tensor& x, Extent2 kernel, AvgPool2dOptions options = {},
                            SourceLocation place = SourceLocation::here());
// Means of windows that are chosen so that there are `size` of them; they overlap if the sizes do
// not divide.
VOLTA_API Tensor adaptive_avg_pool2d(const Tensor& x, Extent2 size,
                                     SourceLocation place = SourceLocation::here());
// Pools x [n, channels, length] in one direction.
VOLTA_API Tensor max_pool1d(const Tensor& x, std::int64_t kernel, MaxPool1dOptions options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, AvgPool1dOptions options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size,
                                     SourceLocation place = SourceLocation::here());

// ---- Resizing.

// Resizes images to a size or by a factor.
VOLTA_API Tensor interpolate(const Tensor& x, InterpolateOptions options,
                             SourceLocation place = SourceLocation::here());

// Rearranges [..., c * factor^2, h, w] to [..., c, h * factor, w * factor], and back.
VOLTA_API Tensor pixel_shuffle(const Tensor& x, std::int64_t factor,
                               SourceLocation place = SourceLocation::here());
VOLTA_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor,
                                 SourceLocation place = SourceLocation::here());

}  // namespace volta
