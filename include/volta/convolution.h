// Convolutions as PyTorch's: images [n, channels, height, width], weights [out, in / groups, kernel
// height, kernel width].
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

// One number for both directions, or {height, width}.
struct Extent2 {
  std::int64_t height = 0, width = 0;
  constexpr Extent2(std::int64_t both) : height(both), width(both) {}  // NOLINT: implicit
  constexpr Extent2(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  friend constexpr bool operator==(Extent2, Extent2) = default;
};

struct Conv1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // zeros added at both ends
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};
struct Conv2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
};
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;         // removed from both ends of the result
  std::int64_t output_padding = 0;  // added at the end of the result
  std::int64_t groups = 1;
  std::int64_t dilation = 1;
};
struct ConvTranspose2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 output_padding = 0;
  std::int64_t groups = 1;
  Extent2 dilation = 1;
};

// ---- Convolutions. The batch axis n may be missing from x and then is missing from the result.
// Convolves x [n, in, length] with weight [out, in / groups, kernel] and adds bias [out] if
// defined.
VOLTA_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Conv1dOptions options = {}, SourceLocation place = SourceLocation::here());
// Convolves x [n, in, height, width] with weight [out, in / groups, kernel height, kernel width].
VOLTA_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        Conv2dOptions options = {}, SourceLocation place = SourceLocation::here());
// The gradient of a convolution with respect to its input, as an operation of its own: x [n, in,
// ...] with weight [in, out / groups, kernel...] gives a result larger by a factor of the stride.
VOLTA_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                  ConvTranspose1dOptions options = {},
                                  SourceLocation place = SourceLocation::here());
VOLTA_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                  ConvTranspose2dOptions options = {},
                                  SourceLocation place = SourceLocation::here());

}  // namespace volta
