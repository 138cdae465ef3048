// Lion: steps of equal size by the sign of averaged gradients (Chen and others, 2023).
#pragma once

#include <optional>
#include <utility>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};  // for the sign, and for the stored average
  double weight_decay = 0;                        // shrinks the parameter itself
};
// Parameters with their own options.
struct LionGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {};
  std::optional<std::pair<double, double>> betas = {};
  std::optional<double> weight_decay = {};
};

class VOLTA_API Lion : public Optimizer {
 public:
  explicit Lion(std::vector<Tensor> parameters, LionOptions options = {});
  explicit Lion(std::vector<LionGroup> groups, LionOptions options = {});
  void add_param_group(LionGroup group);

 protected:
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
  bool skips_on_device() const override { return true; }

 private:
  LionOptions options_;
};

}  // namespace volta::optim
