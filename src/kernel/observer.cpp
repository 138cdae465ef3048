// The observer of generated programs, and the texts it has seen.
#include "kernel/observer.h"

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace volta::kernel {
namespace {

struct State {
  std::atomic<bool> active{false};
  std::mutex mutex;  // guards what follows
  ProgramObserver observer;
  std::set<std::string> seen;
};

State& state() {
  static State& instance = *new State;
  return instance;
}

}  // namespace

void set_program_observer(ProgramObserver observer) {
  const std::lock_guard lock(state().mutex);
  state().active = static_cast<bool>(observer);
  state().observer = std::move(observer);
  state().seen.clear();
}

void report_program(const Program& program) {
  if (!state().active.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(state().mutex);
  if (state().observer && state().seen.insert(to_text(program)).second) state().observer(program);
}

}  // namespace volta::kernel
