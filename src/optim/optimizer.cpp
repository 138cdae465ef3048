// Optimizer: checks, lazily made state, and the state dict of it.
#include "volta/optim/optimizer.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"

namespace volta::optim {

Optimizer::Optimizer(const char* name, std::vector<Tensor> parameters, double lr,
                     std::vector<StateKind> kinds)
    : name_(name), parameters_(std::move(parameters)), lr_(lr), kinds_(std::move(kinds)) {
  require_range("lr", lr, 0, std::numeric_limits<double>::infinity());
  if (parameters_.empty()) throw ArgumentError(fmt::format("{}: there are no parameters", name_));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto refuse = [&](const char* why) {
      throw ArgumentError(fmt::format("{}: parameter {} {}", name_, i, why));
    };
    if (!parameters_[i].defined()) refuse("is undefined");
    if (!parameters_[i].requires_grad()) refuse("does not require a gradient");
    if (!parameters_[i].is_leaf()) refuse("is not a leaf: it was computed from other tensors");
  }
  states_.assign(kinds_.size(), std::vector<Tensor>(parameters_.size()));
}

Optimizer::~Optimizer() = default;

void Optimizer::require_range(const char* what, double value, double low, double high) const {
  const bool inside = value >= low && value < high;  // false for NaN
  if (!inside) {
    throw ArgumentError(
        fmt::format("{}: {} must be in [{}, {}), got {}", name_, what, low, high, value));
  }
}

void Optimizer::set_lr(double lr) {
  require_range("lr", lr, 0, std::numeric_limits<double>::infinity());
  lr_ = lr;
}

void Optimizer::zero_grad() {
  for (Tensor& parameter : parameters_) parameter.zero_grad();
}

Tensor Optimizer::initial_state(std::size_t kind, const Tensor& parameter) const {
  return kinds_[kind].per_element ? zeros_like(parameter)
                                  : zeros({}, {.device = parameter.device()});
}

// Makes the states of a parameter that is updated for the first time, and lets those of a parameter
// that has moved follow it.
void Optimizer::prepare_states(std::size_t parameter) {
  const Tensor& target = parameters_[parameter];
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    Tensor& state = states_[kind][parameter];
    if (!state.defined()) {
      state = initial_state(kind, target);
    } else if (state.device() != target.device()) {
      state = state.to(target.device());
    }
  }
}

void Optimizer::step(Place place) {
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  std::vector<std::size_t> without;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) {
      prepare_states(i);
    } else {
      without.push_back(i);
    }
  }
  if (without.empty()) {
    update(parameters_, states_, place);
    return;
  }
  if (without.size() == parameters_.size()) return;
  const auto with_gradient = [&](const std::vector<Tensor>& all) {
    std::vector<Tensor> some;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!std::binary_search(without.begin(), without.end(), i)) some.push_back(all[i]);
    }
    return some;
  };
  States states;
  for (const auto& all : states_) states.push_back(with_gradient(all));
  update(with_gradient(parameters_), states, place);
}

StateDict Optimizer::state_dict() const {
  StateDict result;
  result.add("lr", scalar(lr_, {.dtype = DType::f64}));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const Tensor& state = states_[kind][i];
      if (state.defined()) result.add(fmt::format("{}.{}", i, kinds_[kind].name), state.detach());
    }
  }
  return result;
}

void Optimizer::load_state_dict(const StateDict& state) {
  NoGrad no_grad;
  std::string problems;
  std::set<std::string> known = {"lr"};
  const Tensor* lr = state.find("lr");
  if (!lr) {
    problems += "\n  missing: lr";
  } else if (lr->numel() != 1) {
    problems += fmt::format("\n  wrong shape: lr is a number, {} in the state dict",
                            to_string(lr->shape()));
  }

  States loaded(kinds_.size(), std::vector<Tensor>(parameters_.size()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto key = [&](const StateKind& kind) { return fmt::format("{}.{}", i, kind.name); };
    const bool present = std::any_of(kinds_.begin(), kinds_.end(),
                                     [&](const auto& kind) { return state.contains(key(kind)); });
    if (!present) continue;  // saved before the parameter's first step
    const Tensor& parameter = parameters_[i];
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const std::string name = key(kinds_[k]);
      known.insert(name);
      const Shape shape = kinds_[k].per_element ? parameter.shape() : Shape{};
      const Tensor* value = state.find(name);
      if (!value) {
        problems += fmt::format("\n  missing: {} {}", name, to_string(shape));
      } else if (value->shape() != shape) {
        problems += fmt::format("\n  wrong shape: {} is {} in the optimizer, {} in the state dict",
                                name, to_string(shape), to_string(value->shape()));
      } else {
        const DType dtype = kinds_[k].per_element ? parameter.dtype() : DType::f32;
        loaded[k][i] = value->detach().to(dtype).to(parameter.device());
      }
    }
  }
  for (const auto& [name, value] : state) {
    if (!known.contains(name)) {
      problems += fmt::format("\n  unexpected: {} {}", name, to_string(value.shape()));
    }
  }
  if (!problems.empty()) {
    throw ArgumentError(
        fmt::format("{}: the state dict does not fit the optimizer{}", name_, problems));
  }
  set_lr(lr->item());
  states_ = std::move(loaded);
}

}  // namespace volta::optim
