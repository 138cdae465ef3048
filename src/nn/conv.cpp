// Convolution layers. Padding that the convolution op cannot do itself is added to its input.
#include "volta/nn/conv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/nn/init.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {
namespace {

struct Sizes {
  const char* layer;
  std::int64_t in, out, groups;
};

void check_sizes(const Sizes& sizes) {
  require_positive(sizes.layer, "in_channels", sizes.in);
  require_positive(sizes.layer, "out_channels", sizes.out);
  require_positive(sizes.layer, "the number of groups", sizes.groups);
  if (sizes.in % sizes.groups != 0 || sizes.out % sizes.groups != 0) {
    throw ArgumentError(fmt::format("{}: {} groups do not divide {} and {} channels", sizes.layer,
                                    sizes.groups, sizes.in, sizes.out));
  }
}

void check_windows(const char* layer, Extent2 kernel, Extent2 stride, Extent2 padding,
                   Extent2 dilation) {
  require_extent(layer, "kernel_size", kernel, 1);
  require_extent(layer, "the stride", stride, 1);
  require_extent(layer, "the padding", padding, 0);
  require_extent(layer, "the dilation", dilation, 1);
}

void check_same(const char* layer, bool same, Extent2 stride) {
  if (same && stride != Extent2(1)) {
    throw ArgumentError(fmt::format("{}: Padding::same needs a stride of 1", layer));
  }
}

// Initial values as in PyTorch: kaiming_uniform(a = sqrt(5)), and the bias within the same bound.
struct Initial {
  Tensor weight, bias;
};
Initial initial(const Shape& weight, std::int64_t out, bool bias, const TensorOptions& made) {
  const double bound = 1 / std::sqrt(init::fans(weight).in);
  return {uniform(weight, -bound, bound, made),
          bias ? uniform({out}, -bound, bound, made) : Tensor()};
}

struct Border {
  std::int64_t before, after;
};

Border border_of(bool same, std::int64_t size, std::int64_t kernel, std::int64_t dilation) {
  if (!same) return {size, size};
  const std::int64_t reach = dilation * (kernel - 1);
  return {reach / 2, reach - reach / 2};
}

// Circular padding: copies the end of an axis to its front and the front to its end.
Tensor wrapped(const char* layer, const Tensor& x, std::int64_t axis, Border border) {
  const std::int64_t length = x.size(axis);
  if (std::max(border.before, border.after) > length) {
    throw ShapeError(fmt::format("{}: circular padding of {} is longer than an axis of {}", layer,
                                 std::max(border.before, border.after), to_string(x.shape())));
  }
  std::vector<Tensor> parts;
  if (border.before > 0) parts.push_back(x.narrow(axis, length - border.before, border.before));
  parts.push_back(x);
  if (border.after > 0) parts.push_back(x.narrow(axis, 0, border.after));
  return concat(parts, axis);
}

// Pads the last axes.
Tensor bordered(const char* layer, Tensor x, std::span<const Border> borders, PaddingMode mode) {
  const auto first = static_cast<std::size_t>(x.rank()) - borders.size();
  if (mode == PaddingMode::circular) {
    for (std::size_t i = 0; i < borders.size(); ++i)
      x = wrapped(layer, x, static_cast<std::int64_t>(first + i), borders[i]);
    return x;
  }
  std::vector<std::int64_t> before(first + borders.size(), 0), after = before;
  for (std::size_t i = 0; i < borders.size(); ++i) {
    before[first + i] = borders[i].before;
    after[first + i] = borders[i].after;
  }
  return pad(x, before, after,
             PadOptions{.mode = mode == PaddingMode::reflect     ? PadMode::reflect
                                : mode == PaddingMode::replicate ? PadMode::replicate
                                                                 : PadMode::constant});
}

template <std::size_t kAxes>
struct Padded {
  Tensor x;
  // Zero padding, equal at both ends, that the convolution does itself.
  std::array<std::int64_t, kAxes> rest;
};
template <std::size_t kAxes>
Padded<kAxes> padded(const char* layer, const Tensor& x, std::array<Border, kAxes> borders,
                     PaddingMode mode) {
  Padded<kAxes> result{x, {}};
  bool any = false;
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (mode == PaddingMode::zeros) {
      result.rest[i] = borders[i].before;
      borders[i] = {0, borders[i].after - borders[i].before};
    }
    any = any || borders[i].before > 0 || borders[i].after > 0;
  }
  if (any) result.x = bordered(layer, x, borders, mode);
  return result;
}

// Calls convolve(x), and adds a batch axis for the call if x has none.
template <class Convolve>
Tensor on_batch(const char* layer, const Tensor& x, std::int64_t channels, const char* axes,
                Convolve&& convolve) {
  if (require_channels(layer, x, channels, axes, Leading::optional)) return convolve(x);
  return convolve(x.unsqueeze(0)).squeeze(0);
}

}  // namespace

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
               Conv1dOptions options)
    : options_(options) {
  check_sizes({"Conv1d", in_channels, out_channels, options.groups});
  check_windows("Conv1d", kernel_size, options.stride, options.padding.size, options.dilation);
  check_same("Conv1d", options.padding.same, options.stride);
  const Initial start =
      initial({out_channels, in_channels / options.groups, kernel_size}, out_channels, options.bias,
              {.dtype = options.dtype, .device = options.device});
  weight = add_parameter("weight", start.weight);
  if (options.bias) bias = add_parameter("bias", start.bias);
}

Tensor Conv1d::forward(const Tensor& x) {
  const Shape& kernel = weight->shape();
  return on_batch("Conv1d", x, kernel[1] * options_.groups, "length", [&](const Tensor& batch) {
    const ConvPadding1 padding = options_.padding;
    const auto [input, rest] = padded<1>(
        "Conv1d", batch, {border_of(padding.same, padding.size, kernel[2], options_.dilation)},
        options_.padding_mode);
    return conv1d(input, weight, bias,
                  {.stride = options_.stride,
                   .padding = rest[0],
                   .dilation = options_.dilation,
                   .groups = options_.groups});
  });
}

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Extent2 kernel_size,
               Conv2dOptions options)
    : options_(options) {
  check_sizes({"Conv2d", in_channels, out_channels, options.groups});
  check_windows("Conv2d", kernel_size, options.stride, options.padding.size, options.dilation);
  check_same("Conv2d", options.padding.same, options.stride);
  const Initial start =
      initial({out_channels, in_channels / options.groups, kernel_size.height, kernel_size.width},
              out_channels, options.bias, {.dtype = options.dtype, .device = options.device});
  weight = add_parameter("weight", start.weight);
  if (options.bias) bias = add_parameter("bias", start.bias);
}

Tensor Conv2d::forward(const Tensor& x) {
  const Shape& kernel = weight->shape();
  return on_batch(
      "Conv2d", x, kernel[1] * options_.groups, "height, width", [&](const Tensor& batch) {
        const ConvPadding2 padding = options_.padding;
        const Extent2 dilation = options_.dilation;
        const auto [input, rest] =
            padded<2>("Conv2d", batch,
                      {border_of(padding.same, padding.size.height, kernel[2], dilation.height),
                       border_of(padding.same, padding.size.width, kernel[3], dilation.width)},
                      options_.padding_mode);
        return conv2d(input, weight, bias,
                      {.stride = options_.stride,
                       .padding = {rest[0], rest[1]},
                       .dilation = dilation,
                       .groups = options_.groups});
      });
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels,
                                 std::int64_t kernel_size, ConvTranspose1dOptions options)
    : options_(options) {
  check_sizes({"ConvTranspose1d", in_channels, out_channels, options.groups});
  check_windows("ConvTranspose1d", kernel_size, options.stride, options.padding, options.dilation);
  require_extent("ConvTranspose1d", "output_padding", options.output_padding, 0);
  const Initial start =
      initial({in_channels, out_channels / options.groups, kernel_size}, out_channels, options.bias,
              {.dtype = options.dtype, .device = options.device});
  weight = add_parameter("weight", start.weight);
  if (options.bias) bias = add_parameter("bias", start.bias);
}

Tensor ConvTranspose1d::forward(const Tensor& x) {
  return on_batch("ConvTranspose1d", x, weight->shape()[0], "length", [&](const Tensor& batch) {
    return conv_transpose1d(batch, weight, bias,
                            {.stride = options_.stride,
                             .padding = options_.padding,
                             .output_padding = options_.output_padding,
                             .groups = options_.groups,
                             .dilation = options_.dilation});
  });
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 Extent2 kernel_size, ConvTranspose2dOptions options)
    : options_(options) {
  check_sizes({"ConvTranspose2d", in_channels, out_channels, options.groups});
  check_windows("ConvTranspose2d", kernel_size, options.stride, options.padding, options.dilation);
  require_extent("ConvTranspose2d", "output_padding", options.output_padding, 0);
  const Initial start =
      initial({in_channels, out_channels / options.groups, kernel_size.height, kernel_size.width},
              out_channels, options.bias, {.dtype = options.dtype, .device = options.device});
  weight = add_parameter("weight", start.weight);
  if (options.bias) bias = add_parameter("bias", start.bias);
}

Tensor ConvTranspose2d::forward(const Tensor& x) {
  return on_batch("ConvTranspose2d", x, weight->shape()[0], "height, width",
                  [&](const Tensor& batch) {
                    return conv_transpose2d(batch, weight, bias,
                                            {.stride = options_.stride,
                                             .padding = options_.padding,
                                             .output_padding = options_.output_padding,
                                             .groups = options_.groups,
                                             .dilation = options_.dilation});
                  });
}

}  // namespace volta::nn
