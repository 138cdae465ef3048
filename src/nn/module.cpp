// Module: the tree of states behind the handles, and what is done to all of it at once.
#include "volta/nn/module.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "volta/autograd.h"
#include "volta/error.h"

namespace volta::nn {

struct Module::State {
  template <class T>
  struct Named {
    std::string name;
    std::shared_ptr<T> value;
  };
  std::vector<Named<Parameter::Slot>> parameters;
  std::vector<Named<Tensor>> buffers;
  std::vector<Named<State>> children;
  bool training = true;

  // Calls visit(state) for this state and all below it.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit(*this);
    for (const auto& child : children) child.value->for_each(visit);
  }
  // Calls visit(state, prefix) for this state and all below it, parents first, once for every name.
  template <class Visit>
  void walk(Visit&& visit, const std::string& prefix = "") {
    visit(*this, prefix);
    for (const auto& child : children) child.value->walk(visit, prefix + child.name + ".");
  }

  struct Leaf {
    std::string name;
    Tensor* tensor;
  };
  // Every parameter and buffer under every name it has.
  std::vector<Leaf> parameter_leaves() {
    std::vector<Leaf> leaves;
    walk([&](State& state, const std::string& prefix) {
      for (auto& p : state.parameters) leaves.push_back({prefix + p.name, p.value->get()});
    });
    return leaves;
  }
  std::vector<Leaf> buffer_leaves() {
    std::vector<Leaf> leaves;
    walk([&](State& state, const std::string& prefix) {
      for (auto& b : state.buffers) leaves.push_back({prefix + b.name, b.value.get()});
    });
    return leaves;
  }
  // In the order of a state dict: each module's parameters, then its buffers.
  std::vector<Leaf> all_leaves() {
    std::vector<Leaf> leaves;
    walk([&](State& state, const std::string& prefix) {
      for (auto& p : state.parameters) leaves.push_back({prefix + p.name, p.value->get()});
      for (auto& b : state.buffers) leaves.push_back({prefix + b.name, b.value.get()});
    });
    return leaves;
  }
  static std::vector<Leaf> unique(std::vector<Leaf> leaves) {
    std::set<const Tensor*> seen;
    std::erase_if(leaves, [&](const Leaf& leaf) { return !seen.insert(leaf.tensor).second; });
    return leaves;
  }

  bool reaches(const State* other) const {
    return this == other || std::any_of(children.begin(), children.end(), [&](const auto& child) {
             return child.value->reaches(other);
           });
  }

  // A name becomes part of dotted keys, so it must be one of a kind and without dots.
  void check_name(const char* op, const std::string& name) const {
    if (name.empty() || name.find('.') != std::string::npos) {
      throw ArgumentError(
          fmt::format("{}: '{}' is no name: it must not be empty or contain a dot", op, name));
    }
    const auto is_called = [&](const auto& named) { return named.name == name; };
    if (std::any_of(parameters.begin(), parameters.end(), is_called) ||
        std::any_of(buffers.begin(), buffers.end(), is_called) ||
        std::any_of(children.begin(), children.end(), is_called)) {
      throw ArgumentError(fmt::format("{}: there is already a '{}'", op, name));
    }
  }
};

Module::Module() : state_(std::make_shared<State>()) {}
Module::Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
Module::~Module() = default;

Tensor Module::forward(const Tensor&) {
  throw ArgumentError("Module: this module does not define forward(const Tensor&)");
}

void Module::add(std::string name, const Module& child) {
  state_->check_name("add", name);
  if (child.state_->reaches(state_.get())) {
    throw ArgumentError(fmt::format("add: '{}' contains the module it is added to", name));
  }
  state_->children.push_back({std::move(name), child.state_});
}

Parameter Module::add_parameter(std::string name, Tensor value) {
  state_->check_name("add_parameter", name);
  if (!value.defined()) {
    throw ArgumentError(fmt::format("add_parameter: tensor '{}' is undefined", name));
  }
  value.set_requires_grad(true);
  auto slot = std::make_shared<Parameter::Slot>(std::make_shared<Tensor>(std::move(value)));
  state_->parameters.push_back({std::move(name), slot});
  return Parameter(std::move(slot));
}

Tensor Module::add_buffer(std::string name, Tensor value) {
  state_->check_name("add_buffer", name);
  if (!value.defined()) {
    throw ArgumentError(fmt::format("add_buffer: tensor '{}' is undefined", name));
  }
  state_->buffers.push_back({std::move(name), std::make_shared<Tensor>(value)});
  return value;
}

void Module::replace_child(std::string_view name, const Module& member, const Module& child) {
  const auto found = std::find_if(state_->children.begin(), state_->children.end(),
                                  [&](const auto& named) { return named.name == name; });
  if (found == state_->children.end() || found->value != member.state_) {
    throw ArgumentError(fmt::format("replace: the member was not added as '{}'", name));
  }
  if (child.state_->reaches(state_.get())) {
    throw ArgumentError(
        fmt::format("replace: the new '{}' contains the module it is put into", name));
  }
  found->value = child.state_;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (const auto& leaf : State::unique(state_->parameter_leaves())) result.push_back(*leaf.tensor);
  return result;
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (auto& leaf : State::unique(state_->parameter_leaves())) {
    result.emplace_back(std::move(leaf.name), *leaf.tensor);
  }
  return result;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> result;
  for (auto& leaf : State::unique(state_->buffer_leaves())) {
    result.emplace_back(std::move(leaf.name), *leaf.tensor);
  }
  return result;
}

std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> result;
  std::set<const State*> seen;
  const auto visit = [&](const auto& self, const std::shared_ptr<State>& state,
                         const std::string& name) -> void {
    if (!seen.insert(state.get()).second) return;
    result.emplace_back(name, Module(state));
    for (const auto& child : state->children) {
      self(self, child.value, name.empty() ? child.name : name + "." + child.name);
    }
  };
  visit(visit, state_, "");
  return result;
}

StateDict Module::state_dict() const {
  StateDict result;
  for (auto& leaf : state_->all_leaves()) result.add(std::move(leaf.name), leaf.tensor->detach());
  return result;
}

LoadReport Module::load_state_dict(const StateDict& state, LoadStateOptions options) {
  NoGrad no_grad;
  LoadReport report;
  std::set<std::string_view> known;
  struct Change {
    Tensor* target;
    Tensor value;
  };
  std::vector<Change> changes;
  const std::vector<State::Leaf> leaves = state_->all_leaves();
  for (const auto& [name, target] : leaves) {
    known.insert(name);
    const Tensor* value = state.find(name);
    if (!value) {
      report.missing.push_back(fmt::format("{} {}", name, to_string(target->shape())));
    } else if (value->shape() != target->shape()) {
      report.wrong_shape.push_back(fmt::format("{} is {} in the module, {} in the state dict", name,
                                               to_string(target->shape()),
                                               to_string(value->shape())));
    } else {
      changes.push_back({target, *value});
    }
  }
  for (const auto& [name, value] : state) {
    if (!known.contains(name)) {
      report.unexpected.push_back(fmt::format("{} {}", name, to_string(value.shape())));
    }
  }
  if (options.strict && !report.complete()) {
    std::string message = "load_state_dict: the state dict does not fit the module";
    const auto append = [&](const char* what, const std::vector<std::string>& names) {
      for (const std::string& name : names) message += fmt::format("\n  {}: {}", what, name);
    };
    append("missing", report.missing);
    append("unexpected", report.unexpected);
    append("wrong shape", report.wrong_shape);
    throw ArgumentError(message);
  }
  // Conversions can fail, assignments cannot: all of the former first.
  for (auto& [target, value] : changes) {
    value = value.detach().to(target->dtype()).to(target->device());
  }
  for (auto& [target, value] : changes) assign(*target, value);
  return report;
}

void Module::zero_grad() {
  state_->for_each([](State& state) {
    for (const auto& parameter : state.parameters) (*parameter.value)->zero_grad();
  });
}

void Module::train(bool on) {
  state_->for_each([on](State& state) { state.training = on; });
}

bool Module::is_training() const { return state_->training; }

namespace {

// Gives each tensor, and its gradient, the value that `convert` makes of it; all or none.
template <class Leaves, class Convert>
void convert_all(const Leaves& leaves, Convert&& convert) {
  NoGrad no_grad;
  struct Change {
    Tensor* target;
    Tensor value, gradient;
  };
  std::vector<Change> changes;
  for (const auto& leaf : leaves) {
    const Tensor gradient = leaf.tensor->grad();
    changes.push_back({leaf.tensor, convert(leaf.tensor->detach()),
                       gradient.defined() ? convert(gradient) : Tensor()});
  }
  for (auto& [target, value, gradient] : changes) {
    assign(*target, value);
    if (gradient.defined()) target->set_grad(gradient);
  }
}

}  // namespace

void Module::to(Device device) {
  auto leaves = State::unique(state_->all_leaves());
  std::erase_if(leaves, [&](const auto& leaf) { return leaf.tensor->device() == device; });
  convert_all(leaves, [&](const Tensor& value) { return value.to(device); });
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw DTypeError(fmt::format("Module::to: {} is not a floating dtype", name_of(dtype)));
  }
  auto leaves = State::unique(state_->all_leaves());
  std::erase_if(leaves, [&](const auto& leaf) {
    return leaf.tensor->dtype() == dtype || !is_floating(leaf.tensor->dtype());
  });
  convert_all(leaves, [&](const Tensor& value) { return value.to(dtype); });
}

Device Module::device() const {
  const auto leaves = State::unique(state_->all_leaves());
  if (leaves.empty()) return Device::cpu();
  const auto count_on = [&](Device device) {
    return std::count_if(leaves.begin(), leaves.end(),
                         [&](const auto& leaf) { return leaf.tensor->device() == device; });
  };
  const Device home =
      std::max_element(leaves.begin(), leaves.end(), [&](const auto& a, const auto& b) {
        return count_on(a.tensor->device()) < count_on(b.tensor->device());
      })->tensor->device();
  std::vector<std::string> strays;
  for (const auto& leaf : leaves) {
    if (leaf.tensor->device() != home) {
      strays.push_back(fmt::format("{} ({})", leaf.name, to_string(leaf.tensor->device())));
    }
  }
  if (!strays.empty()) {
    throw DeviceError(fmt::format("Module::device: the module is on {}, but for {}",
                                  to_string(home), fmt::join(strays, ", ")));
  }
  return home;
}

}  // namespace volta::nn
