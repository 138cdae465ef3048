// The common part of all schedulers: the groups' learning rates and the state dict.
#include "volta/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <fmt/format.h>

#include "volta/creation.h"
#include "volta/error.h"

namespace volta::optim {

LRScheduler::LRScheduler(const char* name, Optimizer& optimizer, std::vector<Number> numbers)
    : name_(name), optimizer_(optimizer), numbers_(std::move(numbers)) {
  for (ParamGroup& group : optimizer_.groups()) {
    if (!group.initial_lr()) group.set_initial_lr(group.lr());
    base_lrs_.push_back(*group.initial_lr());
  }
  last_lr_ = current_lrs();
}

LRScheduler::~LRScheduler() = default;

std::vector<double> LRScheduler::current_lrs() const {
  std::vector<double> lrs;
  for (const ParamGroup& group : optimizer_.groups()) lrs.push_back(group.lr());
  return lrs;
}

void LRScheduler::set_base_lr(std::size_t group, double lr) {
  optimizer_.groups()[group].set_initial_lr(lr);
  base_lrs_[group] = lr;
}

void LRScheduler::set_lrs(const std::vector<double>& lrs) {
  for (std::size_t i = 0; i < lrs.size(); ++i) optimizer_.groups()[i].set_lr(lrs[i]);
  last_lr_ = lrs;
}

void LRScheduler::advance() {
  if (optimizer_.groups().size() != base_lrs_.size()) {
    throw ArgumentError(fmt::format("{}: the optimizer has {} groups, the scheduler {}", name_,
                                    optimizer_.groups().size(), base_lrs_.size()));
  }
  if (last_epoch_ >= most_steps())
    throw ArgumentError(fmt::format("{}: all of its {} steps were made", name_, most_steps()));
  ++last_epoch_;
}

std::vector<double> LRScheduler::per_group(const char* what, const PerGroup& given) const {
  const std::size_t groups = base_lrs_.size();
  const std::vector<double>& values = given.values();
  if (values.size() == groups) return values;
  if (values.size() == 1) return std::vector<double>(groups, values[0]);
  throw ArgumentError(
      fmt::format("{}: {} has {} values for {} groups", name_, what, values.size(), groups));
}

void LRScheduler::require(bool good, const char* what, const char* wanted, double value) const {
  if (!good)
    throw ArgumentError(fmt::format("{}: {} must be {}, got {}", name_, what, wanted, value));
}

StateDict LRScheduler::state_dict() const {
  StateDict state;
  const auto groups = static_cast<std::int64_t>(base_lrs_.size());
  const auto number = [&](const char* name, double value) {
    state.add(name, scalar(value, {.dtype = DType::f64}));
  };
  number("last_epoch", static_cast<double>(last_epoch_));
  state.add("base_lrs", from_vector(base_lrs_, {groups}));
  state.add("last_lr", from_vector(last_lr_, {groups}));
  for (const Number& other : numbers_) number(other.name, other.value);
  return state;
}

void LRScheduler::load_state_dict(const StateDict& state) {
  std::string problems;
  std::set<std::string> known;
  const auto values = [&](const char* name, const Shape& shape) -> std::vector<double> {
    known.insert(name);
    const Tensor* value = state.find(name);
    if (value == nullptr) {
      problems += fmt::format("\n  missing: {} {}", name, to_string(shape));
    } else if (value->shape() != shape) {
      problems += fmt::format("\n  wrong shape: {} is {} in the scheduler, {} in the state dict",
                              name, to_string(shape), to_string(value->shape()));
    } else {
      return value->to(DType::f64).to_vector<double>();
    }
    return {};
  };
  const auto wrong = [&](const char* name, const char* wanted, double value) {
    problems += fmt::format("\n  wrong value: {} must be {}, got {}", name, wanted, value);
  };
  constexpr double kMostSteps = 0x1p53;  // doubles are exact up to this number
  const auto is_count = [](double value) {
    return value >= 0 && value <= kMostSteps && value == std::trunc(value);
  };
  const std::vector<double> epoch = values("last_epoch", Shape{});
  if (!epoch.empty() && !is_count(epoch[0]))
    wrong("last_epoch", "a whole number from 0 to 2^53", epoch[0]);
  const Shape groups{static_cast<std::int64_t>(base_lrs_.size())};
  const auto rates = [&](const char* name) {
    std::vector<double> result = values(name, groups);
    for (const double value : result) {
      const bool good = value >= 0 && std::isfinite(value);
      if (!good) wrong(name, "0 or more and finite", value);
    }
    return result;
  };
  std::vector<double> base = rates("base_lrs"), last = rates("last_lr");
  std::vector<Number> others = numbers_;
  for (Number& other : others) {
    const std::vector<double> value = values(other.name, Shape{});
    if (!value.empty()) other.value = value[0];
  }
  for (const auto& [name, tensor] : state) {
    if (!known.contains(name))
      problems += fmt::format("\n  unexpected: {} {}", name, to_string(tensor.shape()));
  }
  if (!problems.empty()) {
    throw ArgumentError(
        fmt::format("{}: the state dict does not fit the scheduler{}", name_, problems));
  }
  last_epoch_ = static_cast<std::int64_t>(epoch[0]);
  for (std::size_t i = 0; i < base.size(); ++i) set_base_lr(i, base[i]);
  set_lrs(last);
  numbers_ = std::move(others);
  changed();
}

}  // namespace volta::optim
