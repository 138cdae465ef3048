// SGD: stochastic gradient descent with momentum and weight decay.
#pragma once

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

class VOLTA_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, SGDOptions options = {});

 protected:
  void update(std::span<const Tensor> parameters, States& states, Place place) override;
  Tensor initial_state(std::size_t kind, const Tensor& parameter) const override;
  // The first gradient enters the buffer undampened: if its step is skipped, there is no buffer.
  bool skips_on_device() const override { return options_.dampening == 0; }

 private:
  SGDOptions options_;
};

}  // namespace volta::optim
