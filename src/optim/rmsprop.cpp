// RMSprop.
#include "volta/optim/rmsprop.h"

#include "volta/detail/optimizer_ops.h"

namespace volta::optim {

namespace {

enum StateIndex : std::size_t { kSquares, kAverage, kBuffer };
enum Option : std::size_t { kLr, kAlpha, kEps, kDecay, kMomentum, kCentered, kMaximize };
constexpr OptionRule kRules[] = {
    {"lr"}, {"alpha"}, {"eps"}, {"weight_decay"}, {"momentum"}, flag("centered"), flag("maximize"),
};

}  // namespace

RMSprop::RMSprop(std::vector<RMSpropGroup> groups, RMSpropOptions options)
    : Optimizer({.optimizer = "RMSprop", .rules = kRules}, {{"square_avg", true},
                                                            {"grad_avg", true, "centered"},
                                                            {"momentum_buffer", true, "momentum"}}),
      options_(options) {
  require_groups(groups.size());
  for (RMSpropGroup& group : groups) add_param_group(std::move(group));
}

RMSprop::RMSprop(std::vector<Tensor> parameters, RMSpropOptions options)
    : RMSprop(std::vector<RMSpropGroup>{{.parameters = std::move(parameters)}}, options) {}

void RMSprop::add_param_group(RMSpropGroup group) {
  add_group(std::move(group.parameters),
            {group.lr.value_or(options_.lr), group.alpha.value_or(options_.alpha),
             group.eps.value_or(options_.eps), group.weight_decay.value_or(options_.weight_decay),
             group.momentum.value_or(options_.momentum),
             static_cast<double>(group.centered.value_or(options_.centered)),
             static_cast<double>(group.maximize.value_or(options_.maximize))});
}

void RMSprop::update(const ParamGroup& group, std::span<const Tensor> parameters, States& states,
                     SourceLocation place) {
  rmsprop_step(
      parameters, states[kSquares],
      {.lr = group[kLr],
       .alpha = group[kAlpha],
       .eps = group[kEps],
       .weight_decay = group[kDecay],
       .momentum = group[kMomentum],
       .maximize = group[kMaximize] != 0,
       .averages = group[kCentered] != 0 ? std::span(states[kAverage]) : std::span<Tensor>(),
       .buffers = group[kMomentum] != 0 ? std::span(states[kBuffer]) : std::span<Tensor>(),
       .scaled = scaled_step(),
       .submits = false},
      place);
}

}  // namespace volta::optim
