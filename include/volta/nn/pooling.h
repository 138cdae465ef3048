// Pooling layers. Each one is the function of the same name in pooling.h. Images are [n, channels,
// height, width], and n may be missing. Sizes are one number or {height, width}.
#pragma once

#include <cstdint>

#include "volta/nn/module.h"
#include "volta/pooling.h"

namespace volta::nn {

class VOLTA_API MaxPool1d : public Module {
 public:
  explicit MaxPool1d(std::int64_t kernel_size, MaxPool1dOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t kernel_size_;
  MaxPool1dOptions options_;
};

class VOLTA_API MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Extent2 kernel_size, MaxPool2dOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  Extent2 kernel_size_;
  MaxPool2dOptions options_;
};

class VOLTA_API AvgPool1d : public Module {
 public:
  explicit AvgPool1d(std::int64_t kernel_size, AvgPool1dOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t kernel_size_;
  AvgPool1dOptions options_;
};

class VOLTA_API AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Extent2 kernel_size, AvgPool2dOptions options = {});
  Tensor forward(const Tensor& x) override;

 private:
  Extent2 kernel_size_;
  AvgPool2dOptions options_;
};

class VOLTA_API AdaptiveAvgPool1d : public Module {
 public:
  explicit AdaptiveAvgPool1d(std::int64_t output_size);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t output_size_;
};

class VOLTA_API AdaptiveAvgPool2d : public Module {
 public:
  // A size of 0 keeps that of the image.
  explicit AdaptiveAvgPool2d(Extent2 output_size);
  Tensor forward(const Tensor& x) override;

 private:
  Extent2 output_size_;
};

}  // namespace volta::nn
