// RMSprop: divides gradients by a running average of their magnitude.
#pragma once

#include <optional>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  // decay of the running averages
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  // divides by the standard deviation, subtracting the average gradient
  bool maximize = false;
};
// Parameters with their own options.
struct RMSpropGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {}, alpha = {}, eps = {}, weight_decay = {}, momentum = {};
  std::optional<bool> centered = {}, maximize = {};
};

class VOLTA_API RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Tensor> parameters, RMSpropOptions options = {});
  explicit RMSprop(std::vector<RMSpropGroup> groups, RMSpropOptions options = {});
  void add_param_group(RMSpropGroup group);

 protected:
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
  bool skips_on_device() const override { return true; }

 private:
  RMSpropOptions options_;
};

}  // namespace volta::optim
