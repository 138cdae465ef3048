// Pooling layers.
#include "volta/nn/pooling.h"

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"

namespace volta::nn {
namespace {

// A stride of 0 stands for the kernel's size.
void check_windows(const char* layer, Extent2 kernel, Extent2 stride, Extent2 padding,
                   Extent2 dilation) {
  require_extent(layer, "kernel_size", kernel, 1);
  if (stride != Extent2(0)) require_extent(layer, "the stride", stride, 1);
  require_extent(layer, "the padding", padding, 0);
  require_extent(layer, "the dilation", dilation, 1);
  if (padding.height > kernel.height / 2 || padding.width > kernel.width / 2) {
    throw ArgumentError(fmt::format("{}: the padding must be at most half of kernel_size", layer));
  }
}

}  // namespace

MaxPool1d::MaxPool1d(std::int64_t kernel_size, MaxPool1dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  check_windows("MaxPool1d", kernel_size, options.stride, options.padding, options.dilation);
}
Tensor MaxPool1d::forward(const Tensor& x) { return max_pool1d(x, kernel_size_, options_); }

MaxPool2d::MaxPool2d(Extent2 kernel_size, MaxPool2dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  check_windows("MaxPool2d", kernel_size, options.stride, options.padding, options.dilation);
}
Tensor MaxPool2d::forward(const Tensor& x) { return max_pool2d(x, kernel_size_, options_); }

AvgPool1d::AvgPool1d(std::int64_t kernel_size, AvgPool1dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  check_windows("AvgPool1d", kernel_size, options.stride, options.padding, 1);
}
Tensor AvgPool1d::forward(const Tensor& x) { return avg_pool1d(x, kernel_size_, options_); }

AvgPool2d::AvgPool2d(Extent2 kernel_size, AvgPool2dOptions options)
    : kernel_size_(kernel_size), options_(options) {
  check_windows("AvgPool2d", kernel_size, options.stride, options.padding, 1);
}
Tensor AvgPool2d::forward(const Tensor& x) { return avg_pool2d(x, kernel_size_, options_); }

AdaptiveAvgPool1d::AdaptiveAvgPool1d(std::int64_t output_size) : output_size_(output_size) {
  require_positive("AdaptiveAvgPool1d", "output_size", output_size);
}
Tensor AdaptiveAvgPool1d::forward(const Tensor& x) { return adaptive_avg_pool1d(x, output_size_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Extent2 output_size) : output_size_(output_size) {
  require_extent("AdaptiveAvgPool2d", "output_size", output_size, 0);
}
Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  if (!x.defined() || x.rank() < 2) return adaptive_avg_pool2d(x, output_size_);  // throws
  const Extent2 size(output_size_.height == 0 ? x.size(-2) : output_size_.height,
                     output_size_.width == 0 ? x.size(-1) : output_size_.width);
  return adaptive_avg_pool2d(x, size);
}

}  // namespace volta::nn
