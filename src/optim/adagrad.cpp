// Adagrad.
#include "volta/optim/adagrad.h"

#include "volta/creation.h"
#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

enum StateIndex : std::size_t { kSum, kStep };
enum Option : std::size_t { kLr, kLrDecay, kDecay, kInitial, kEps, kMaximize };
constexpr OptionRule kRules[] = {
    {"lr"},  {"lr_decay"},     {"weight_decay"}, {"initial_accumulator_value"},
    {"eps"}, flag("maximize"),
};

}  // namespace

Adagrad::Adagrad(std::vector<AdagradGroup> groups, AdagradOptions options)
    : Optimizer({.optimizer = "Adagrad", .rules = kRules}, {{"sum", true}, {"step", false}}),
      options_(options) {
  require_groups(groups.size());
  for (AdagradGroup& group : groups) add_param_group(std::move(group));
}

Adagrad::Adagrad(std::vector<Tensor> parameters, AdagradOptions options)
    : Adagrad(std::vector<AdagradGroup>{{.parameters = std::move(parameters)}}, options) {}

void Adagrad::add_param_group(AdagradGroup group) {
  add_group(std::move(group.parameters),
            {group.lr.value_or(options_.lr), group.lr_decay.value_or(options_.lr_decay),
             group.weight_decay.value_or(options_.weight_decay),
             group.initial_accumulator_value.value_or(options_.initial_accumulator_value),
             group.eps.value_or(options_.eps),
             static_cast<double>(group.maximize.value_or(options_.maximize))});
}

Tensor Adagrad::initial_state(const ParamGroup& group, std::size_t kind,
                              const Tensor& parameter) const {
  if (kind != kSum) return Optimizer::initial_state(group, kind, parameter);
  return full_like(parameter, group[kInitial]);
}

void Adagrad::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                     SourceLocation place) {
  adagrad_step(parameters, states[kSum], states[kStep],
               {.lr = group[kLr],
                .lr_decay = group[kLrDecay],
                .weight_decay = group[kDecay],
                .eps = group[kEps],
                .maximize = group[kMaximize] != 0,
                .scaled = scaled_step(),
                .submits = false},
               place);
}

}  // namespace volta::optim
