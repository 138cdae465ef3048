// Scope: a setting of the thread that lasts as long as an object. Programs use the classes derived
// from it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace volta {

// Base class of NoGrad, EnableGrad, ExecutionContext and Autocast. Scopes nest, and the innermost
// one decides. They can be neither copied nor moved and end on the thread where they began, in any
// order: if an outer scope ends first, the inner one stays in force and restores the outer one's
// previous setting at its own end.
template <class Value>
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 protected:
  // Takes the thread's setting and its innermost scope.
  Scope(Value& setting, Scope*& innermost, Value value)
      : previous_(std::exchange(setting, std::move(value))),
        outer_(std::exchange(innermost, this)),
        home_(&innermost) {}
  ~Scope() = default;

  // Called once, by the destructor.
  void end(Value& setting, Scope*& innermost) {
    if (&innermost != home_) {
      std::fputs(
          "volta: a scope (NoGrad, Autocast, ExecutionContext ...) ended on another thread "
          "than it began on\n",
          stderr);
      std::abort();
    }
    if (innermost == this) {
      innermost = outer_;
      setting = std::move(previous_);
      return;
    }
    for (Scope* inner = innermost; inner != nullptr; inner = inner->outer_) {
      if (inner->outer_ != this) continue;
      inner->outer_ = outer_;
      inner->previous_ = std::move(previous_);
      return;
    }
  }

 private:
  Value previous_;
  Scope* outer_;
  Scope** home_;  // the thread's pointer to its innermost scope
};

}  // namespace volta
