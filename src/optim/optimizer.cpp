// Optimizer: parameter groups and their checks, state that is created at the first step, and steps.
#include "volta/optim/optimizer.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/nn/module.h"

namespace volta::optim {

namespace {

constexpr OptionRule kOnlyLr[] = {{"lr"}};

}  // namespace

Optimizer::Optimizer(OptionTable table, std::vector<StateKind> kinds)
    : table_(table), kinds_(std::move(kinds)) {}

Optimizer::Optimizer(const char* name, std::vector<Tensor> parameters, double lr,
                     std::vector<StateKind> kinds)
    : Optimizer({.optimizer = name, .rules = kOnlyLr}, std::move(kinds)) {
  add_group(std::move(parameters), {lr});
}

Optimizer::~Optimizer() = default;

const char* Optimizer::problem_of(const Tensor&) const { return nullptr; }

void Optimizer::require_groups(std::size_t count) const {
  if (count == 0)
    throw ArgumentError(fmt::format("{}: there are no groups of parameters", table_.optimizer));
}

void Optimizer::add_group(std::vector<Tensor> parameters, std::vector<double> numbers) {
  const std::string name = groups_.empty()
                               ? std::string(table_.optimizer)
                               : fmt::format("{}: group {}", table_.optimizer, groups_.size());
  ParamGroup group(table_, name, std::move(parameters), std::move(numbers));
  if (group.parameters().empty()) throw ArgumentError(name + ": there are no parameters");
  std::set<const void*> known;
  for (const Tensor& parameter : parameters_) known.insert(variable_of(parameter));
  std::size_t number = parameters_.size();
  for (const Tensor& parameter : group.parameters()) {
    const auto refuse = [&](const char* why) {
      throw ArgumentError(fmt::format("{}: parameter {} {}", table_.optimizer, number, why));
    };
    if (!parameter.defined()) refuse("is undefined");
    if (!is_floating(parameter.dtype())) refuse("is not floating");
    if (!parameter.is_leaf()) refuse("is not a leaf: it was computed from other tensors");
    if (!known.insert(variable_of(parameter)).second) refuse("is there already");
    if (const char* problem = problem_of(parameter)) refuse(problem);
    ++number;
  }
  parameters_.insert(parameters_.end(), group.parameters().begin(), group.parameters().end());
  states_.emplace_back(kinds_.size(), std::vector<Tensor>(group.parameters().size()));
  groups_.push_back(std::move(group));
}

void Optimizer::set_lr(double lr) {
  for (ParamGroup& group : groups_) group.set_lr(lr);
}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.zero_grad();
}

Tensor Optimizer::initial_state(const ParamGroup&, std::size_t kind,
                                const Tensor& parameter) const {
  return kinds_[kind].per_element ? zeros_like(parameter)
                                  : zeros({}, {.device = parameter.device()});
}

// Creates the states of parameters that are updated for the first time, and moves the states of a
// parameter to the parameter's device. An empty `updated` means that all parameters are updated.
void Optimizer::prepare_states(std::size_t group, const std::vector<bool>& updated) {
  const ParamGroup& owner = groups_[group];
  States& states = states_[group];
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (!kinds_[kind].option.empty() && owner.get(kinds_[kind].option) == 0) continue;
    for (std::size_t i = 0; i < owner.parameters().size(); ++i) {
      if (!updated.empty() && !updated[i]) continue;
      const Tensor& parameter = owner.parameters()[i];
      Tensor& state = states[kind][i];
      if (!state.defined()) {
        state = initial_state(owner, kind, parameter);
        made_.push_back(&state);
      } else if (const Device home = parameter.device(); state.device() != home) {
        state = state.to(home);
      }
    }
  }
}

// A gradient of a frozen parameter is left over from earlier passes.
bool Optimizer::takes_step(const Tensor& parameter) {
  return parameter.requires_grad() && parameter.grad().defined();
}

std::vector<Tensor> Optimizer::gradients() const {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters_) {
    if (takes_step(parameter)) gradients.push_back(parameter.grad());
  }
  return gradients;
}

void Optimizer::require_gradient_fits(std::size_t group, std::size_t position) const {
  const Tensor &parameter = groups_[group].parameters()[position], gradient = parameter.grad();
  if (gradient.dtype() == parameter.dtype() && gradient.device() == parameter.device() &&
      gradient.shape() == parameter.shape()) {
    return;
  }
  std::size_t number = position;
  for (std::size_t before = 0; before < group; ++before) {
    number += groups_[before].parameters().size();
  }
  const auto described = [](const Tensor& tensor) {
    return fmt::format("{} {} on {}", name_of(tensor.dtype()), to_string(tensor.shape()),
                       to_string(tensor.device()));
  };
  throw ArgumentError(
      fmt::format("{}: parameter {} is {}, but its gradient is {}: call zero_grad() after to(), "
                  "before the next backward()",
                  table_.optimizer, number, described(parameter), described(gradient)));
}

// Steps are short, so the usual case, in which all parameters have gradients, copies no lists.
bool Optimizer::step_group(std::size_t group, SourceLocation place) {
  const std::vector<Tensor>& parameters = groups_[group].parameters();
  std::size_t count = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!takes_step(parameters[i])) continue;
    require_gradient_fits(group, i);
    ++count;
  }
  if (count == 0) return false;
  if (count == parameters.size()) {
    prepare_states(group, {});
    update(groups_[group], parameters, states_[group], place);
    return true;
  }
  std::vector<bool> updated;
  for (const Tensor& parameter : parameters) updated.push_back(takes_step(parameter));
  prepare_states(group, updated);
  const auto chosen = [&](const std::vector<Tensor>& all) {
    std::vector<Tensor> some;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (updated[i]) some.push_back(all[i]);
    }
    return some;
  };
  States states;
  for (const auto& all : states_[group]) states.push_back(chosen(all));
  update(groups_[group], chosen(parameters), states, place);
  return true;
}

void Optimizer::step(SourceLocation place) {
  nn::detail::require_registered(parameters_);
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  try {
    take_step(place);
  } catch (...) {
    // A failed step leaves no new states behind: an initial value may depend on that step's
    // gradient.
    for (Tensor* state : made_) *state = Tensor();
    made_.clear();
    throw;
  }
  made_.clear();
}

void Optimizer::take_step(SourceLocation place) {
  bool stepped = false;
  for (std::size_t group = 0; group < groups_.size(); ++group) stepped |= step_group(group, place);
  if (!stepped) return;
  std::vector<Device> others;
  const Device first = parameters_[0].device();
  submit(first);
  for (const Tensor& parameter : parameters_) {
    const Device device = parameter.device();
    if (device == first || std::find(others.begin(), others.end(), device) != others.end()) {
      continue;
    }
    others.push_back(device);
    submit(device);
  }
}

}  // namespace volta::optim
