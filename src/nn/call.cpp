// Calls of modules: whose place is told of what they record, and which of them threw.
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nn/module_state.h"
#include "volta/nn/module.h"

namespace volta::nn {

struct Module::Call::Calls {
  // A module that an exception left, and how many calls were around it.
  struct Left {
    std::shared_ptr<State> state;  // alive, so that no other can have its address
    std::string kind;
    int depth;
  };
  std::vector<const Module*> open;  // the outermost first
  std::vector<Left> left;           // the innermost first

  static Calls& here() {
    static thread_local Calls calls;
    return calls;
  }
};

Module::Call::Call(const Module& module, Place place)
    : module_(module), place_(place), exceptions_(std::uncaught_exceptions()) {
  std::vector<const Module*>& open = Calls::here().open;
  if (!open.empty()) Suspects::note(open, module);
  open.push_back(&module);
}

Module::Call::~Call() {
  auto& [open, left] = Calls::here();
  open.pop_back();
  const int depth = static_cast<int>(open.size());
  if (std::uncaught_exceptions() == exceptions_) return;
  // What an earlier exception left, one that was caught on its way, is of no interest.
  if (!left.empty() && left.back().depth != depth + 1) left.clear();
  try {
    left.push_back({module_.state_.share(), module_.kind(), depth});
  } catch (...) {  // the exception on its way matters more
    left.clear();
  }
}

void Module::Call::add_path(Error& error) const {
  auto& [open, left] = Calls::here();
  if (open.size() != 1) return;  // the outermost tells
  const std::vector<Calls::Left> inner = std::exchange(left, {});
  if (inner.empty() || inner.back().depth != 1) return;
  std::string path;
  State* parent = module_.state_.get();
  for (auto one = inner.rbegin(); one != inner.rend(); ++one) {
    std::string name = one->kind;  // of one that was never added
    parent->walk([&](State& state, const std::string& prefix) {
      if (&state == one->state.get()) name = prefix.substr(0, prefix.size() - 1);
    });
    path += (path.empty() ? "" : ".") + name;
    parent = one->state.get();
  }
  error.add_note(fmt::format("(in {} of {})", path, module_.kind()));
}

}  // namespace volta::nn
