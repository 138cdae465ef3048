// Lion.
#include "volta/optim/lion.h"

#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

enum Option : std::size_t { kLr, kBeta1, kBeta2, kDecay };
constexpr OptionRule kRules[] = {
    {"lr"}, {"betas.first", 0, 1}, {"betas.second", 0, 1}, {"weight_decay"}};

}  // namespace

Lion::Lion(std::vector<LionGroup> groups, LionOptions options)
    : Optimizer({.optimizer = "Lion", .rules = kRules}, {{"exp_avg", true}}), options_(options) {
  require_groups(groups.size());
  for (LionGroup& group : groups) add_param_group(std::move(group));
}

Lion::Lion(std::vector<Tensor> parameters, LionOptions options)
    : Lion(std::vector<LionGroup>{{.parameters = std::move(parameters)}}, options) {}

void Lion::add_param_group(LionGroup group) {
  const auto betas = group.betas.value_or(options_.betas);
  add_group(std::move(group.parameters), {group.lr.value_or(options_.lr), betas.first, betas.second,
                                          group.weight_decay.value_or(options_.weight_decay)});
}

void Lion::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                  SourceLocation place) {
  lion_step(parameters, states[0],
            {.lr = group[kLr],
             .beta1 = group[kBeta1],
             .beta2 = group[kBeta2],
             .weight_decay = group[kDecay],
             .scaled = scaled_step(),
             .submits = false},
            place);
}

}  // namespace volta::optim
