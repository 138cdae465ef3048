// Adam and AdamW.
#include "volta/optim/adam.h"

#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

enum StateIndex : std::size_t { kFirst, kSecond, kStep, kLargest };
enum Option : std::size_t { kLr, kBeta1, kBeta2, kEps, kDecay, kAmsgrad, kMaximize };
constexpr OptionRule kRules[] = {
    {"lr"},           {"betas.first", 0, 1}, {"betas.second", 0, 1}, {"eps"},
    {"weight_decay"}, flag("amsgrad"),       flag("maximize"),
};

std::vector<AdamGroup> one_group(std::vector<Tensor> parameters) {
  return {{.parameters = std::move(parameters)}};
}
AdamOptions adam_options(const AdamWOptions& options) {
  return {.lr = options.lr,
          .betas = options.betas,
          .eps = options.eps,
          .weight_decay = options.weight_decay,
          .amsgrad = options.amsgrad,
          .maximize = options.maximize};
}

}  // namespace

Adam::Adam(const char* name, std::vector<AdamGroup> groups, const AdamOptions& options,
           bool decoupled)
    : Optimizer({.optimizer = name, .rules = kRules}, {{"exp_avg", true},
                                                       {"exp_avg_sq", true},
                                                       {"step", false},
                                                       {"max_exp_avg_sq", true, "amsgrad"}}),
      options_(options),
      decoupled_(decoupled) {
  require_groups(groups.size());
  for (AdamGroup& group : groups) add_param_group(std::move(group));
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options)
    : Adam("Adam", one_group(std::move(parameters)), options, false) {}
Adam::Adam(std::vector<AdamGroup> groups, AdamOptions options)
    : Adam("Adam", std::move(groups), options, false) {}
AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : Adam("AdamW", one_group(std::move(parameters)), adam_options(options), true) {}
AdamW::AdamW(std::vector<AdamGroup> groups, AdamWOptions options)
    : Adam("AdamW", std::move(groups), adam_options(options), true) {}

void Adam::add_param_group(AdamGroup group) {
  const auto betas = group.betas.value_or(options_.betas);
  add_group(std::move(group.parameters),
            {group.lr.value_or(options_.lr), betas.first, betas.second,
             group.eps.value_or(options_.eps), group.weight_decay.value_or(options_.weight_decay),
             static_cast<double>(group.amsgrad.value_or(options_.amsgrad)),
             static_cast<double>(group.maximize.value_or(options_.maximize))});
}

void Adam::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                  SourceLocation place) {
  adam_step(parameters, states[kFirst], states[kSecond], states[kStep],
            {.lr = group[kLr],
             .beta1 = group[kBeta1],
             .beta2 = group[kBeta2],
             .eps = group[kEps],
             .weight_decay = group[kDecay],
             .decoupled = decoupled_,
             .maximize = group[kMaximize] != 0,
             .largest = group[kAmsgrad] != 0 ? std::span(states[kLargest]) : std::span<Tensor>(),
             .scaled = scaled_step(),
             .submits = false},
            place);
}

}  // namespace volta::optim
