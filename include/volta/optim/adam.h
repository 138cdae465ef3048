// Adam, and AdamW with its decoupled weight decay.
#pragma once

#include <utility>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
};

class VOLTA_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});

 protected:
  Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options,
       bool decoupled);
  void update(std::span<const Tensor> parameters, States& states, Place place) override;
  bool skips_on_device() const override { return true; }

 private:
  AdamOptions options_;
  bool decoupled_;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;  // shrinks the parameter itself
};

class VOLTA_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
};

}  // namespace volta::optim
