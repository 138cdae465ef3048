// The observers of programs and of kernels, and the programs' texts seen so far.
#include "kernel/observer.h"

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace volta::kernel {
namespace {

struct Programs {
  std::atomic<bool> active{false};
  std::mutex mutex;  // guards what follows
  ProgramObserver observer;
  std::set<std::string> seen;
};

struct Kernels {
  std::atomic<bool> active{false};
  std::mutex mutex;  // guards the observer
  KernelObserver observer;
};

Programs& programs() {
  static Programs& instance = *new Programs;
  return instance;
}

Kernels& kernels() {
  static Kernels& instance = *new Kernels;
  return instance;
}

}  // namespace

void set_program_observer(ProgramObserver observer) {
  const std::lock_guard lock(programs().mutex);
  programs().active = static_cast<bool>(observer);
  programs().observer = std::move(observer);
  programs().seen.clear();
}

void report_program(const Program& program) {
  if (!programs().active.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(programs().mutex);
  if (programs().observer && programs().seen.insert(to_text(program)).second)
    programs().observer(program);
}

void set_kernel_observer(KernelObserver observer) {
  const std::lock_guard lock(kernels().mutex);
  kernels().active = static_cast<bool>(observer);
  kernels().observer = std::move(observer);
}

void report_kernel(const std::string& backend, const std::string& source) {
  if (!kernels().active.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(kernels().mutex);
  if (kernels().observer) kernels().observer(backend, source);
}

}  // namespace volta::kernel
