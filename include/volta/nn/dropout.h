// Dropout: zeroes elements, or whole channels, at random while training and scales the rest by
// 1 / (1 - p); does nothing in eval mode.
#pragma once

#include "volta/nn/module.h"

namespace volta::nn {

class VOLTA_API Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

// Channels of [n, channels, height, width], or of [n, channels, length].
class VOLTA_API Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

}  // namespace volta::nn
