// Convolution layers: Conv1d, Conv2d, ConvTranspose1d and ConvTranspose2d. Sizes of images are one
// number for both directions or {height, width}.
#pragma once

#include <cstdint>
#include <optional>

#include "volta/convolution.h"
#include "volta/nn/module.h"

namespace volta::nn {

enum class Padding : std::uint8_t {
  valid,  // no padding
  same,   // keeps the size; needs a stride of 1
};
enum class PaddingMode : std::uint8_t {
  zeros,
  reflect,    // mirrored at the border, without repeating it
  replicate,  // repeats the border
  circular,   // wraps around to the other end
};

// The padding at both ends: a number, or Padding::same.
struct ConvPadding1 {
  constexpr ConvPadding1(std::int64_t both_ends) : size(both_ends) {}          // NOLINT: implicit
  constexpr ConvPadding1(Padding padding) : same(padding == Padding::same) {}  // NOLINT: implicit
  std::int64_t size = 0;
  bool same = false;
};
// The padding of images: one number, {height, width}, or Padding::same.
struct ConvPadding2 {
  constexpr ConvPadding2(std::int64_t both) : size(both) {}  // NOLINT: implicit
  constexpr ConvPadding2(std::int64_t height, std::int64_t width) : size(height, width) {}
  constexpr ConvPadding2(Extent2 extent) : size(extent) {}                     // NOLINT: implicit
  constexpr ConvPadding2(Padding padding) : same(padding == Padding::same) {}  // NOLINT: implicit
  Extent2 size = 0;
  bool same = false;
};

struct Conv1dOptions {
  std::int64_t stride = 1;
  ConvPadding1 padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct Conv2dOptions {
  Extent2 stride = 1;
  ConvPadding2 padding = 0;
  Extent2 dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  PaddingMode padding_mode = PaddingMode::zeros;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct ConvTranspose1dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;         // removed from both ends of the result
  std::int64_t output_padding = 0;  // added at the end of the result
  std::int64_t groups = 1;
  bool bias = true;
  std::int64_t dilation = 1;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct ConvTranspose2dOptions {
  Extent2 stride = 1;
  Extent2 padding = 0;
  Extent2 output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Extent2 dilation = 1;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Weights and biases of all layers start uniform within ±1 / sqrt(fan in), where the fan in is the
// number of elements of weight[0]. The batch axis n may be missing.

// [n, in_channels, length] -> [n, out_channels, ...].
class VOLTA_API Conv1d : public Module {
 public:
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
         Conv1dOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [out_channels, in_channels / groups, kernel_size]
  Parameter bias;    // [out_channels]; undefined if disabled

 private:
  Conv1dOptions options_;
};

// [n, in_channels, height, width] -> [n, out_channels, ...].
class VOLTA_API Conv2d : public Module {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2 kernel_size,
         Conv2dOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [out_channels, in_channels / groups, kernel height, kernel width]
  Parameter bias;    // [out_channels]; undefined if disabled

 private:
  Conv2dOptions options_;
};

// [n, in_channels, length] -> [n, out_channels, ...], longer by a factor of the stride.
class VOLTA_API ConvTranspose1d : public Module {
 public:
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  ConvTranspose1dOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [in_channels, out_channels / groups, kernel_size]
  Parameter bias;    // [out_channels]; undefined if disabled

 private:
  ConvTranspose1dOptions options_;
};

// [n, in_channels, height, width] -> [n, out_channels, ...], larger by a factor of the stride.
class VOLTA_API ConvTranspose2d : public Module {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Extent2 kernel_size,
                  ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& x) override;

  Parameter weight;  // [in_channels, out_channels / groups, kernel height, kernel width]
  Parameter bias;    // [out_channels]; undefined if disabled

 private:
  ConvTranspose2dOptions options_;
};

}  // namespace volta::nn
