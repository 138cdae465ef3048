// Dropout: in training, zeroes elements or whole channels at random and scales the others by 1 / (1
// - p); does nothing in eval mode.
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

// Zeroes channels of [n, channels, height, width] or [n, channels, length].
class VOLTA_API Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

}  // namespace volta::nn
