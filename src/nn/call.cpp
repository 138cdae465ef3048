// Calls of modules: the source location reported for their operations, and the module that threw an
// error.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "nn/module_state.h"
#include "volta/nn/module.h"

namespace volta::nn {

namespace {
// This thread's Calls. A pointer is trivial, so its memory is valid for as long as the thread runs.
constinit thread_local void* calls_of_thread = nullptr;

struct AtThreadEnd {
  void (*run)();
  ~AtThreadEnd() { run(); }
};
}  // namespace

struct Module::Call::Calls {
  // A module that an error has left, and the number of calls around it.
  struct Left {
    std::shared_ptr<State> state;  // kept alive, so that no new module reuses its address
    std::string kind;
    int depth;
  };
  std::vector<const Module*> open;  // outermost first
  std::vector<Left> left;           // innermost first

  // Destructors of static objects, and of the thread's other objects, may call modules after the
  // thread's record was destroyed. It is then made again and never destroyed.
  static Calls& here() {
    if (calls_of_thread == nullptr) {
      calls_of_thread = new Calls;
      static thread_local const AtThreadEnd end{
          [] { delete static_cast<Calls*>(std::exchange(calls_of_thread, nullptr)); }};
    }
    return *static_cast<Calls*>(calls_of_thread);
  }
};

Module::Call::Call(const Module& module, SourceLocation place) : module_(module), place_(place) {
  std::vector<const Module*>& open = Calls::here().open;
  if (!open.empty()) Suspects::note(open, module);
  open.push_back(&module);
}

Module::Call::~Call() { Calls::here().open.pop_back(); }

void Module::Call::failed(Error& error) const {
  auto& [open, left] = Calls::here();
  const int depth = static_cast<int>(open.size()) - 1;
  if (depth == 0) return add_path(error);  // the outermost call adds the path
  // Modules left by an earlier error, which was caught, do not matter.
  if (!left.empty() && left.back().depth != depth + 1) left.clear();
  try {
    left.push_back({module_.state_.share(), module_.kind(), depth});
  } catch (...) {  // the error being propagated matters more
    left.clear();
  }
}

void Module::Call::add_path(Error& error) const {
  const std::vector<Calls::Left> inner = std::exchange(Calls::here().left, {});
  if (inner.empty() || inner.back().depth != 1) return;
  std::string path;
  State* parent = module_.state_.get();
  for (auto one = inner.rbegin(); one != inner.rend(); ++one) {
    std::string name = one->kind;  // the fallback for a module that was never added
    parent->walk([&](State& state, const std::string& prefix) {
      if (&state == one->state.get()) name = prefix.substr(0, prefix.size() - 1);
    });
    path += (path.empty() ? "" : ".") + name;
    parent = one->state.get();
  }
  error.add_note(fmt::format("(in {} of {})", path, module_.kind()));
}

}  // namespace volta::nn
