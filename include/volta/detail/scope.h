// Scope: a setting of the thread that lasts as long as an object.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace volta {

// What NoGrad, EnableGrad, ExecutionContext and Autocast are. Scopes nest, the innermost decides.
// They are neither copied nor moved and end on the thread they began on, in any order: one that
// ends before a scope inside of it leaves the setting to that one, which, when it ends, leaves the
// setting as the first one found it.
template <class Value>
class Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 protected:
  // The thread's setting, and the innermost scope that made it.
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
  Scope** home_;  // the thread's
};

}  // namespace volta
