// SGD.
#include "volta/optim/sgd.h"

#include <algorithm>
#include <limits>

#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
enum Option : std::size_t { kLr, kMomentum, kDampening, kDecay, kNesterov, kMaximize };
constexpr OptionRule kRules[] = {
    {"lr"},           {"momentum"},     {"dampening", -kInfinity},
    {"weight_decay"}, flag("nesterov"), flag("maximize"),
};

const char* problem(std::span<const double> n) {
  const bool bad = n[kNesterov] != 0 && (n[kMomentum] == 0 || n[kDampening] != 0);
  return bad ? "nesterov needs a momentum and no dampening" : nullptr;
}

}  // namespace

SGD::SGD(std::vector<SGDGroup> groups, SGDOptions options)
    : Optimizer({.optimizer = "SGD", .rules = kRules, .problem = problem},
                {{"momentum_buffer", true, "momentum"}}),
      options_(options) {
  require_groups(groups.size());
  for (SGDGroup& group : groups) add_param_group(std::move(group));
}

SGD::SGD(std::vector<Tensor> parameters, SGDOptions options)
    : SGD(std::vector<SGDGroup>{{.parameters = std::move(parameters)}}, options) {}

void SGD::add_param_group(SGDGroup group) {
  add_group(std::move(group.parameters),
            {group.lr.value_or(options_.lr), group.momentum.value_or(options_.momentum),
             group.dampening.value_or(options_.dampening),
             group.weight_decay.value_or(options_.weight_decay),
             static_cast<double>(group.nesterov.value_or(options_.nesterov)),
             static_cast<double>(group.maximize.value_or(options_.maximize))});
}

bool SGD::skips_on_device() const {
  return std::all_of(groups().begin(), groups().end(),
                     [](const ParamGroup& group) { return group[kDampening] == 0; });
}

// The first step must leave the undampened gradient g in the buffer. With momentum m and dampening
// d the initial buffer b therefore solves m b + (1 - d) g = g.
Tensor SGD::initial_state(const ParamGroup& group, std::size_t kind,
                          const Tensor& parameter) const {
  if (group[kDampening] == 0) return Optimizer::initial_state(group, kind, parameter);
  Tensor gradient = parameter.grad();
  if (group[kMaximize] != 0) gradient = -gradient;
  if (group[kDecay] != 0) gradient = gradient + parameter.detach() * group[kDecay];
  return gradient * (group[kDampening] / group[kMomentum]);
}

void SGD::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                 SourceLocation place) {
  sgd_step(parameters, states[0],
           {.lr = group[kLr],
            .momentum = group[kMomentum],
            .dampening = group[kDampening],
            .weight_decay = group[kDecay],
            .nesterov = group[kNesterov] != 0,
            .maximize = group[kMaximize] != 0,
            .scaled = scaled_step(),
            .submits = false},
           place);
}

}  // namespace volta::optim
