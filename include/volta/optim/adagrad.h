// Adagrad: divides gradients by the root of the sum of all their squares so far.
#pragma once

#include <optional>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;  // step t uses lr / (1 + (t - 1) lr_decay)
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};
// Parameters with their own options.
struct AdagradGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {}, lr_decay = {}, weight_decay = {}, initial_accumulator_value = {},
                        eps = {};
  std::optional<bool> maximize = {};
};

class VOLTA_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {});
  explicit Adagrad(std::vector<AdagradGroup> groups, AdagradOptions options = {});
  void add_param_group(AdagradGroup group);

 protected:
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
  Tensor initial_state(const ParamGroup& group, std::size_t kind,
                       const Tensor& parameter) const override;
  bool skips_on_device() const override { return true; }

 private:
  AdagradOptions options_;
};

}  // namespace volta::optim
