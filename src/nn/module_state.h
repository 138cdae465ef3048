// What a module's handles share: the tree of parameters, buffers and children.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "volta/nn/module.h"

namespace volta::nn {

struct [[gnu::visibility("hidden")]] Module::State {
  template <class T>
  struct Named {
    std::string name;
    detail::Shared<T> value;
  };
  std::vector<Named<Parameter::Slot>> parameters;
  struct NamedBuffer : Named<Tensor> {
    bool required;  // of a state dict
  };
  std::vector<NamedBuffer> buffers;
  // A child keeps a copy of the module, for whoever asks for modules.
  struct Child {
    std::string name;
    detail::AnyModule module;
    State& operator*() const { return *module->state_; }
    State* operator->() const { return module->state_.get(); }
  };
  std::vector<Child> children;
  bool training = true;

  // Calls visit(state) for this state and all below it.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit(*this);
    for (const auto& child : children) child->for_each(visit);
  }
  // Calls visit(state, prefix) for this state and all below it, parents first, once for every name.
  template <class Visit>
  void walk(Visit&& visit, const std::string& prefix = "") {
    visit(*this, prefix);
    for (const auto& child : children) child->walk(visit, prefix + child.name + ".");
  }

  struct Leaf {
    std::string name;
    Tensor* tensor;
    bool required = true;  // of a state dict
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
      for (auto& b : state.buffers) leaves.push_back({prefix + b.name, b.value.get(), b.required});
    });
    return leaves;
  }
  // In the order of a state dict: each module's parameters, then its buffers.
  std::vector<Leaf> all_leaves() {
    std::vector<Leaf> leaves;
    walk([&](State& state, const std::string& prefix) {
      for (auto& p : state.parameters) leaves.push_back({prefix + p.name, p.value->get()});
      for (auto& b : state.buffers) leaves.push_back({prefix + b.name, b.value.get(), b.required});
    });
    return leaves;
  }
  static std::vector<Leaf> unique(std::vector<Leaf> leaves) {
    std::set<const Tensor*> seen;
    std::erase_if(leaves, [&](const Leaf& leaf) { return !seen.insert(leaf.tensor).second; });
    return leaves;
  }

  std::int64_t parameter_count() {
    std::int64_t count = 0;
    for (const Leaf& leaf : unique(parameter_leaves())) count += leaf.tensor->numel();
    return count;
  }

  bool reaches(const State* other) const {
    return this == other || std::any_of(children.begin(), children.end(),
                                        [&](const auto& child) { return child->reaches(other); });
  }

  // A name becomes part of dotted keys, so it must be one of a kind and without dots.
  void check_name(const char* op, const std::string& name) const;
};

}  // namespace volta::nn
