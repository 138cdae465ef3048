// The optimizer's state dict: the options of the groups and the states of the parameters.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/optim/optimizer.h"

namespace volta::optim {
namespace {

// Takes values out of a state dict and collects all problems, so that one error can list them.
class StateReader {
 public:
  explicit StateReader(const StateDict& state) : state_(state) {}

  // Returns nothing if the value is missing or not a number. That is a problem unless it is
  // optional and missing.
  std::optional<double> number(const std::string& name, bool optional = false) {
    known_.insert(name);
    const Tensor* value = state_.find(name);
    if (value == nullptr) {
      if (!optional) problems_ += fmt::format("\n  missing: {}", name);
    } else if (value->numel() != 1) {
      problems_ += fmt::format("\n  wrong shape: {} is a number, {} in the state dict", name,
                               to_string(value->shape()));
    } else {
      return value->item();
    }
    return std::nullopt;
  }
  // Returns null if the tensor is missing, which is a problem if it is needed, or has another
  // shape, which always is one.
  const Tensor* tensor(const std::string& name, const Shape& shape, bool needed) {
    known_.insert(name);
    const Tensor* value = state_.find(name);
    if (value == nullptr) {
      if (needed) problems_ += fmt::format("\n  missing: {} {}", name, to_string(shape));
    } else if (value->shape() != shape) {
      problems_ += fmt::format("\n  wrong shape: {} is {} in the optimizer, {} in the state dict",
                               name, to_string(shape), to_string(value->shape()));
      return nullptr;
    }
    return value;
  }
  void wrong_value(const std::string& problem) {
    problems_ += fmt::format("\n  wrong value: {}", problem);
  }
  // Throws ArgumentError if there are problems, including values that were never requested.
  void finish(const char* optimizer) {
    for (const auto& [name, value] : state_) {
      if (!known_.contains(name))
        problems_ += fmt::format("\n  unexpected: {} {}", name, to_string(value.shape()));
    }
    if (problems_.empty()) return;
    throw ArgumentError(
        fmt::format("{}: the state dict does not fit the optimizer{}", optimizer, problems_));
  }

 private:
  const StateDict& state_;
  std::string problems_;
  std::set<std::string> known_;
};

}  // namespace

StateDict Optimizer::state_dict() const {
  StateDict result;
  const auto number = [&](std::size_t group, std::string_view name, double value) {
    result.add(fmt::format("groups.{}.{}", group, name), scalar(value, {.dtype = DType::f64}));
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParamGroup& group = groups_[g];
    number(g, "parameters", static_cast<double>(group.parameters().size()));
    for (std::size_t i = 0; i < table_.rules.size(); ++i) number(g, table_.rules[i].name, group[i]);
    if (group.initial_lr()) number(g, "initial_lr", *group.initial_lr());
  }
  std::size_t position = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].parameters().size(); ++i, ++position) {
      for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const Tensor& state = states_[g][kind][i];
        if (state.defined())
          result.add(fmt::format("{}.{}", position, kinds_[kind].name), state.detach());
      }
    }
  }
  return result;
}

void Optimizer::load_state_dict(const StateDict& state) {
  const NoGrad no_grad;
  StateReader reader(state);
  std::vector<ParamGroup> groups = groups_;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ParamGroup& group = groups[g];
    const std::string prefix = fmt::format("groups.{}.", g);
    const auto count = static_cast<double>(group.parameters().size());
    const auto saved = reader.number(prefix + "parameters");
    if (saved && *saved != count) {
      reader.wrong_value(fmt::format("{}parameters is {} in the optimizer, {} in the state dict",
                                     prefix, count, *saved));
    }
    for (std::size_t i = 0; i < table_.rules.size(); ++i) {
      if (const auto value = reader.number(fmt::format("{}{}", prefix, table_.rules[i].name)))
        group.numbers_[i] = *value;
    }
    group.initial_lr_ = reader.number(prefix + "initial_lr", true);
    for (const std::string& problem : ParamGroup::problems_of(table_, group.numbers_))
      reader.wrong_value(prefix + problem);
    const double initial = group.initial_lr_.value_or(0);
    const bool good = initial >= 0 && std::isfinite(initial);
    if (!good) {
      reader.wrong_value(fmt::format("{}initial_lr must be in [0, inf), got {}", prefix, initial));
    }
  }

  std::vector<States> loaded;
  std::size_t position = 0;
  for (const ParamGroup& group : groups) {
    States& states =
        loaded.emplace_back(kinds_.size(), std::vector<Tensor>(group.parameters().size()));
    for (std::size_t i = 0; i < group.parameters().size(); ++i, ++position) {
      const auto key = [&](const StateKind& kind) {
        return fmt::format("{}.{}", position, kind.name);
      };
      const bool present = std::any_of(kinds_.begin(), kinds_.end(),
                                       [&](const auto& kind) { return state.contains(key(kind)); });
      if (!present) continue;  // the state was saved before the parameter's first step
      const Tensor& parameter = group.parameters()[i];
      for (std::size_t k = 0; k < kinds_.size(); ++k) {
        const StateKind& kind = kinds_[k];
        const bool needed = kind.option.empty() || group.get(kind.option) != 0;
        const Tensor* value =
            reader.tensor(key(kind), kind.per_element ? parameter.shape() : Shape{}, needed);
        if (value == nullptr) continue;
        const DType dtype = kind.per_element ? parameter.dtype() : DType::f32;
        states[k][i] = value->detach().to(dtype).to(parameter.device());
      }
    }
  }
  reader.finish(table_.optimizer);
  groups_ = std::move(groups);
  states_ = std::move(loaded);
}

}  // namespace volta::optim
