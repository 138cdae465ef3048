// Dropout: zeroes elements at random while training, does nothing in eval mode.
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

}  // namespace volta::nn
