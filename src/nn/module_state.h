// The state that a module's handles share: the tree of parameters, buffers and children.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
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
    bool required;  // a state dict must have it
  };
  std::vector<NamedBuffer> buffers;
  // A child keeps a copy of the module, which modules() returns.
  struct Child {
    std::string name;
    detail::AnyModule module;
    State& operator*() const { return *module->state_; }
    State* operator->() const { return module->state_.get(); }
  };
  std::vector<Child> children;
  bool training = true;

  // A member module that was found without having been added as a child.
  struct Member {
    std::string owner, kind;  // class names
    detail::Shared<State> state;
  };
  std::vector<Member> forgotten;
  std::vector<detail::Shared<State>> left_out;  // members that are deliberately not children
  std::uint64_t born = next();  // modules are numbered in the order of their construction
  bool added = false;           // this module is a child of another one
  bool claimed = false;         // parameters() was called; set with claim()
  bool suspected = false;       // see Suspects; any thread may set it

  static std::uint64_t next();
  void claim() { std::atomic_ref(claimed).store(true, std::memory_order_relaxed); }
  bool is_claimed() { return std::atomic_ref(claimed).load(std::memory_order_relaxed); }
  bool has_leaves() { return !all_leaves().empty(); }
  bool leaves_out(const State* member) const {
    return std::any_of(left_out.begin(), left_out.end(),
                       [&](const auto& one) { return one.get() == member; });
  }
  // Throws ArgumentError if this module, or a module below it, has members that were never added.
  void require_complete();

  // Calls visit(state) for this state and all states below it.
  template <class Visit>
  void for_each(Visit&& visit) {
    visit(*this);
    for (const auto& child : children) child->for_each(visit);
  }
  // Calls visit(state, prefix) for this state and all states below it, parents first. A shared
  // state is visited once under each of its names.
  template <class Visit>
  void walk(Visit&& visit, const std::string& prefix = "") {
    visit(*this, prefix);
    for (const auto& child : children) child->walk(visit, prefix + child.name + ".");
  }

  struct Leaf {
    std::string name;
    Tensor* tensor;
    bool required = true;  // a state dict must have it
  };
  // Lists every parameter under each of its names.
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
  // Lists parameters and buffers in the order of a state dict: each module's parameters, then its
  // buffers.
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

  // A name becomes part of dotted keys, so it must be unique and without dots.
  void check_name(const char* op, const std::string& name) const;
};

// Modules called by modules that they are not part of, until it is known which optimizer trains
// them.
struct Module::Suspects {
  // Records a call of `module` inside `calls`, innermost last.
  static void note(const std::vector<const Module*>& calls, const Module& module);
  // Throws ArgumentError if `trained` contains parameters of a caller, and a module that it called
  // has gradients but no parameter in `trained`.
  static void check(const std::vector<Tensor>& trained);
};

}  // namespace volta::nn
