// Muon: orthogonalises the momentum of matrices by Newton–Schulz iterations (Jordan and others,
// 2024). Use AdamW for other parameters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "volta/optim/optimizer.h"

namespace volta::optim {

// The factor on the learning rate of a matrix [a, b].
enum class MuonAdjustment : std::uint8_t {
  original,         // sqrt(max(1, a / b))
  match_rms_adamw,  // 0.2 sqrt(max(a, b)): suits learning rates and weight decays tuned for AdamW
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;  // shrinks the parameter itself
  double momentum = 0.95;
  bool nesterov = true;
  // X becomes a X + b (X Xᵀ) X + c (X Xᵀ)² X, ns_steps times, in bf16 as in PyTorch.
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int ns_steps = 5;
  MuonAdjustment adjust_lr_fn = MuonAdjustment::original;
};
// Parameters with their own options.
struct MuonGroup {
  std::vector<Tensor> parameters = {};
  std::optional<double> lr = {}, weight_decay = {}, momentum = {};
  std::optional<bool> nesterov = {};
  std::optional<std::array<double, 3>> ns_coefficients = {};
  std::optional<double> eps = {};
  std::optional<int> ns_steps = {};
  std::optional<MuonAdjustment> adjust_lr_fn = {};
};

class VOLTA_API Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Tensor> parameters, MuonOptions options = {});
  explicit Muon(std::vector<MuonGroup> groups, MuonOptions options = {});
  void add_param_group(MuonGroup group);

 protected:
  void update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
              SourceLocation place) override;
  bool skips_on_device() const override { return true; }
  const char* problem_of(const Tensor& parameter) const override;

 private:
  MuonOptions options_;
};

}  // namespace volta::optim
