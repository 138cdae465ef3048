// Module: the tree of states behind the handles, and operations on the whole tree.
#include "volta/nn/module.h"

#include <algorithm>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/call_watch.h"
#include "nn/module_state.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/transfers.h"

namespace volta::nn {

void Module::State::check_name(const char* op, const std::string& name) const {
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

Module::Module() : state_(std::make_shared<State>()) {}
Module::~Module() = default;

Tensor Module::forward(const Tensor&) {
  throw ArgumentError(fmt::format(
      "{}: it does not define forward(const Tensor&); what takes other arguments is called by hand",
      kind()));
}

Tensor Module::operator()(const Tensor& x, SourceLocation place) {
  return call(place, [&] {
    Tensor y = forward(x);
    if (Watch* watch = Watch::current()) watch->called(*this, std::span(&x, 1), std::span(&y, 1));
    return y;
  });
}

void Module::add(std::string name, const detail::AnyModule& child) {
  state_->check_name("add", name);
  if (child->state_->reaches(state_.get())) {
    throw ArgumentError(fmt::format("add: '{}' contains the module it is added to", name));
  }
  state_->children.push_back({std::move(name), child});
  child->state_->added = true;
}

Parameter Module::add_parameter(std::string name, Tensor value) {
  state_->check_name("add_parameter", name);
  if (!value.defined()) {
    throw ArgumentError(fmt::format("add_parameter: tensor '{}' is undefined", name));
  }
  value.set_requires_grad(true);
  detail::Shared<Parameter::Slot> slot(
      std::make_shared<Parameter::Slot>(std::make_shared<Tensor>(std::move(value))));
  state_->parameters.push_back({std::move(name), slot});
  return Parameter(std::move(slot));
}

Buffer Module::add_buffer(std::string name, const Tensor& value, BufferOptions options) {
  state_->check_name("add_buffer", name);
  if (!value.defined()) {
    throw ArgumentError(fmt::format("add_buffer: tensor '{}' is undefined", name));
  }
  detail::Shared<Tensor> tensor(std::make_shared<Tensor>(value));
  state_->buffers.push_back({{std::move(name), tensor}, options.required});
  return Buffer(std::move(tensor));
}

void Module::replace_child(std::string_view name, const Module& member,
                           const detail::AnyModule& child) {
  const auto found = std::find_if(state_->children.begin(), state_->children.end(),
                                  [&](const auto& named) { return named.name == name; });
  if (found == state_->children.end() || !(found->module->state_ == member.state_)) {
    throw ArgumentError(fmt::format("replace: the member was not added as '{}'", name));
  }
  if (child->state_->reaches(state_.get())) {
    throw ArgumentError(
        fmt::format("replace: the new '{}' contains the module it is put into", name));
  }
  found->module = child;
  child->state_->added = true;
}

std::vector<Tensor> Module::parameters() const {
  state_->require_complete();
  state_->claim();
  std::vector<Tensor> result;
  for (const auto& leaf : State::unique(state_->parameter_leaves())) result.push_back(*leaf.tensor);
  return result;
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  state_->require_complete();
  state_->claim();
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

std::vector<std::pair<std::string, std::shared_ptr<Module>>> Module::named_modules() {
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> result;
  std::set<const State*> seen;
  const auto visit = [&](const auto& self, std::shared_ptr<Module> module,
                         const std::string& name) -> void {
    const State* state = module->state_.get();
    if (!seen.insert(state).second) return;
    result.emplace_back(name, std::move(module));
    for (const State::Child& child : state->children) {
      self(self, child.module.pointer(), name.empty() ? child.name : name + "." + child.name);
    }
  };
  visit(visit, std::shared_ptr<Module>(std::shared_ptr<void>(), this), "");  // owns nothing
  return result;
}

Module& Module::apply(const std::function<void(Module&)>& visit) {
  std::set<const State*> seen;
  const auto walk = [&](const auto& self, Module& module) -> void {
    if (!seen.insert(module.state_.get()).second) return;
    for (const State::Child& child : module.state_->children) self(self, *child.module);
    visit(module);
  };
  walk(walk, *this);
  return *this;
}

StateDict Module::state_dict() const {
  state_->require_complete();
  StateDict result;
  for (auto& leaf : state_->all_leaves()) result.add(std::move(leaf.name), leaf.tensor->detach());
  return result;
}

LoadReport Module::load_state_dict(const StateDict& state, LoadStateOptions options) {
  state_->require_complete();
  NoGrad no_grad;
  LoadReport report;
  std::set<std::string_view> known;
  struct Change {
    Tensor* target;
    Tensor value;
  };
  std::vector<Change> changes;
  const std::vector<State::Leaf> leaves = state_->all_leaves();
  for (const auto& [name, target, required] : leaves) {
    known.insert(name);
    const Tensor* value = state.find(name);
    if (!value) {
      if (!required) continue;
      const auto problem = state.unreadable().find(name);
      report.missing.push_back(fmt::format(
          "{} {}{}", name, to_string(target->shape()),
          problem != state.unreadable().end() ? fmt::format(" ({})", problem->second) : ""));
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
  // All conversions come first, because conversions can fail and assignments cannot.
  for (auto& [target, value] : changes) {
    value = value.detach().to(target->dtype()).to(target->device());
  }
  for (auto& [target, value] : changes) assign(*target, value);
  return report;
}

Module& Module::zero_grad() {
  state_->for_each([](State& state) {
    for (const auto& parameter : state.parameters) (*parameter.value)->zero_grad();
  });
  return *this;
}

Module& Module::train(bool on) {
  state_->for_each([on](State& state) { state.training = on; });
  return *this;
}

Module& Module::requires_grad(bool on) {
  for (const auto& leaf : state_->parameter_leaves()) leaf.tensor->set_requires_grad(on);
  return *this;
}

bool Module::is_training() const { return state_->training; }

namespace {

// Replaces each tensor and its gradient by the result of `convert`: all of them, or none if it
// throws.
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

Module& Module::to(Device device, SourceLocation place) {
  const TransferReason reason("Module::to", place);
  auto leaves = State::unique(state_->all_leaves());
  std::erase_if(leaves, [&](const auto& leaf) { return leaf.tensor->device() == device; });
  convert_all(leaves, [&](const Tensor& value) { return value.to(device, place); });
  return *this;
}

Module& Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw DTypeError(fmt::format("Module::to: {} is not a floating dtype", name_of(dtype)));
  }
  auto leaves = State::unique(state_->all_leaves());
  std::erase_if(leaves, [&](const auto& leaf) {
    return leaf.tensor->dtype() == dtype || !is_floating(leaf.tensor->dtype());
  });
  convert_all(leaves, [&](const Tensor& value) { return value.to(dtype); });
  return *this;
}

Module& Module::to(Device device, DType dtype) { return to(dtype).to(device); }

Device Module::device() const {
  const auto leaves = State::unique(state_->all_leaves());
  if (leaves.empty()) return Device::cpu();
  // Automatic placement may leave rarely used tensors on other devices, so the device with the most
  // elements is the module's. Otherwise the device with the most tensors is, and others are an
  // error.
  const bool placed = execution_options().placement != Placement::as_written;
  const auto count_on = [&](Device device) {
    std::int64_t count = 0;
    for (const auto& leaf : leaves) {
      if (leaf.tensor->device() == device) count += placed ? leaf.tensor->numel() : 1;
    }
    return count;
  };
  const Device home =
      std::max_element(leaves.begin(), leaves.end(), [&](const auto& a, const auto& b) {
        return count_on(a.tensor->device()) < count_on(b.tensor->device());
      })->tensor->device();
  if (placed) return home;
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
