// Pooling and resizing of images as PyTorch's: [n, channels, height, width], or without n.
#pragma once

#include <cstdint>

#include "volta/convolution.h"
#include "volta/tensor.h"

namespace volta {

struct MaxPool2dOptions {
  Extent2 stride = 0;   // 0: the kernel's size
  Extent2 padding = 0;  // with -inf, at most half a window
  Extent2 dilation = 1;
  bool ceil_mode = false;  // windows that reach beyond the end count
};
struct MaxPool1dOptions {
  std::int64_t stride = 0;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool ceil_mode = false;
};
struct AvgPool2dOptions {
  Extent2 stride = 0;  // 0: the kernel's size
  Extent2 padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // the zeros of the padding count
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
  Extent2 size = 0;   // of the result; or
  Factor2 scale = 0;  // how much larger it is
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;  // bilinear: the corners' centres, not their edges, coincide
};

// ---- Pooling.

// The largest element of each window; its gradient goes to the first one. NaN is the largest.
VOLTA_API Tensor max_pool2d(const Tensor& x, Extent2 kernel, MaxPool2dOptions options = {},
                            SourceLocation place = SourceLocation::here());
// The mean of each window.
VOLTA_API Tensor avg_pool2d(const Tensor& x, Extent2 kernel, AvgPool2dOptions options = {},
                            SourceLocation place = SourceLocation::here());
// Means of windows so chosen that there are `size` of them; they overlap where it does not divide.
VOLTA_API Tensor adaptive_avg_pool2d(const Tensor& x, Extent2 size,
                                     SourceLocation place = SourceLocation::here());
// The same of [n, channels, length].
VOLTA_API Tensor max_pool1d(const Tensor& x, std::int64_t kernel, MaxPool1dOptions options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, AvgPool1dOptions options = {},
                            SourceLocation place = SourceLocation::here());
VOLTA_API Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size,
                                     SourceLocation place = SourceLocation::here());

// ---- Resizing.

// To a size, or by a factor.
VOLTA_API Tensor interpolate(const Tensor& x, InterpolateOptions options,
                             SourceLocation place = SourceLocation::here());

// [..., c * factor^2, h, w] to [..., c, h * factor, w * factor], and back.
VOLTA_API Tensor pixel_shuffle(const Tensor& x, std::int64_t factor,
                               SourceLocation place = SourceLocation::here());
VOLTA_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor,
                                 SourceLocation place = SourceLocation::here());

}  // namespace volta
