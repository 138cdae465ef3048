// Lion: steps of one size, by the sign of an average of gradients (Chen and others, 2023).
#pragma once

#include <optional>
#include <utility>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};  // of the sign, and of the average kept
  double weight_decay = 0;                        // shrinks the parameter itself
};
// Parameters, and what is different for them.
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
              Place place) override;
  bool skips_on_device() const override { return true; }

 private:
  LionOptions options_;
};

}  // namespace volta::optim
