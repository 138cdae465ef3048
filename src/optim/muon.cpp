// Muon.
#include "volta/optim/muon.h"

#include <limits>

#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
enum Option : std::size_t { kLr, kDecay, kMomentum, kNesterov, kA, kB, kC, kEps, kSteps, kAdjust };
constexpr OptionRule kRules[] = {
    {"lr"},
    {"weight_decay"},
    {"momentum"},
    flag("nesterov"),
    {"ns_coefficients.a", -kInfinity},
    {"ns_coefficients.b", -kInfinity},
    {"ns_coefficients.c", -kInfinity},
    {"eps"},
    {"ns_steps", 0, 100, true},
    flag("adjust_lr_fn"),
};

}  // namespace

Muon::Muon(std::vector<MuonGroup> groups, MuonOptions options)
    : Optimizer({.optimizer = "Muon", .rules = kRules}, {{"momentum_buffer", true}}),
      options_(options) {
  require_groups(groups.size());
  for (MuonGroup& group : groups) add_param_group(std::move(group));
}

Muon::Muon(std::vector<Tensor> parameters, MuonOptions options)
    : Muon(std::vector<MuonGroup>{{.parameters = std::move(parameters)}}, options) {}

const char* Muon::problem_of(const Tensor& parameter) const {
  return parameter.rank() == 2 ? nullptr : "is not a matrix";
}

void Muon::add_param_group(MuonGroup group) {
  const auto coefficients = group.ns_coefficients.value_or(options_.ns_coefficients);
  add_group(std::move(group.parameters),
            {group.lr.value_or(options_.lr), group.weight_decay.value_or(options_.weight_decay),
             group.momentum.value_or(options_.momentum),
             static_cast<double>(group.nesterov.value_or(options_.nesterov)), coefficients[0],
             coefficients[1], coefficients[2], group.eps.value_or(options_.eps),
             static_cast<double>(group.ns_steps.value_or(options_.ns_steps)),
             static_cast<double>(group.adjust_lr_fn.value_or(options_.adjust_lr_fn))});
}

void Muon::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                  SourceLocation place) {
  muon_step(parameters, states[0],
            {.lr = group[kLr],
             .weight_decay = group[kDecay],
             .momentum = group[kMomentum],
             .nesterov = group[kNesterov] != 0,
             .coefficients = {group[kA], group[kB], group[kC]},
             .eps = group[kEps],
             .steps = static_cast<int>(group[kSteps]),
             .matches_adamw = group[kAdjust] != 0,
             .scaled = scaled_step(),
             .submits = false},
            place);
}

}  // namespace volta::optim
