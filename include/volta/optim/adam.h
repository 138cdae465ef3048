// Adam, and AdamW with its decoupled weight decay.
#pragma once

#include <optional>
#include <utility>

#include "volta/optim/optimizer.h"

namespace volta::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;
  bool maximize = false;
};
// Parameters with their own options.
struct AdamGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {};
  std::optional<std::pair<double, double>> betas = {};
  std::optional<double> eps = {}, weight_decay = {};
  std::optional<bool> amsgrad = {}, maximize = {};
};

class VOLTA_API Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});
  explicit Adam(std::vector<AdamGroup> groups, AdamOptions options = {});
  void add_param_group(AdamGroup group);

 protected:
  Adam(const char* name, std::vector<AdamGroup> groups, const AdamOptions& options, bool decoupled);
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
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
  bool amsgrad = false;
  bool maximize = false;
};

class VOLTA_API AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
  explicit AdamW(std::vector<AdamGroup> groups, AdamWOptions options = {});
};

}  // namespace volta::optim
