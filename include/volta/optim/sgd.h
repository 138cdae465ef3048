// SGD: stochastic gradient descent with momentum and weight decay.
#pragma once

#include <optional>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};
// Parameters with their own options.
struct SGDGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {}, momentum = {}, dampening = {}, weight_decay = {};
  std::optional<bool> nesterov = {}, maximize = {};
};

class VOLTA_API SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, SGDOptions options = {});
  explicit SGD(std::vector<SGDGroup> groups, SGDOptions options = {});
  void add_param_group(SGDGroup group);

 protected:
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
  Tensor initial_state(const ParamGroup& group, std::size_t kind,
                       const Tensor& parameter) const override;
  // False with dampening: the initial buffer depends on the first gradient, so a skipped first step
  // must not create it.
  bool skips_on_device() const override;

 private:
  SGDOptions options_;
};

}  // namespace volta::optim
