// The observers of programs and kernels, and the program texts seen so far.
#include "kernel/observer.h"

#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/log_once.h"
#include "platform/env.h"
#include "platform/files.h"
#include "platform/fork.h"

namespace volta::kernel {
namespace {

struct Programs {
  std::atomic<bool> active{false};
  platform::ForkMutex mutex;  // guards everything below
  ProgramObserver observer;
  std::set<std::string> seen;
};

struct Kernels {
  std::atomic<bool> active{false};
  platform::ForkMutex mutex;  // guards the observer
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

// VOLTA_DUMP_KERNELS=FOLDER writes every distinct program and source to a file of its own.
class Dump {
 public:
  static Dump& instance() {
    static Dump& dump = *new Dump;
    return dump;
  }
  bool active() const { return folder_.has_value(); }

  void write(const std::string& name, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!written_.insert(name).second) return;
    try {
      std::filesystem::create_directories(*folder_);
      platform::AtomicFile file((std::filesystem::path(*folder_) / name).string());
      file.write(text);
      file.commit();
    } catch (const std::exception& error) {
      log_once("kernel dump", LogLevel::warning,
               std::string("VOLTA_DUMP_KERNELS: ") + error.what());
    }
  }

 private:
  const std::optional<std::string> folder_ = platform::environment("VOLTA_DUMP_KERNELS");
  platform::ForkMutex mutex_;
  std::set<std::string> written_;
};

}  // namespace

void set_program_observer(ProgramObserver observer) {
  const std::lock_guard lock(programs().mutex);
  programs().active = static_cast<bool>(observer);
  programs().observer = std::move(observer);
  programs().seen.clear();
}

void report_program(const Program& program) {
  if (Dump::instance().active()) [[unlikely]]
    Dump::instance().write(emit(program, Dialect::OpenCL).name + ".program", to_text(program));
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

void report_kernel(const std::string& backend, const KernelSource& kernel) {
  const std::string& source = kernel.text;
  if (Dump::instance().active()) [[unlikely]]
    Dump::instance().write(kernel.name + (backend == "cuda" ? ".cu" : ".cl"), source);
  if (!kernels().active.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(kernels().mutex);
  if (kernels().observer) kernels().observer(backend, source);
}

}  // namespace volta::kernel
