// The compiled kernels of one device, each loaded once. Plans own the modules they use;
// backend/common/program_table.h says which others are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/common/program_table.h"
#include "backend/cuda/compiler.h"
#include "backend/cuda/context.h"
#include "kernel/emit.h"

namespace volta::cuda {

// A loaded module with one kernel. Its owner must wait for its launches before destroying it.
class Module {
 public:
  // Takes ownership of the module. The context must be current.
  Module(const Context& context, CUmodule module, CUfunction function)
      : context_(context), module_(module), function_(function) {}
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction function() const { return function_; }

 private:
  const Context& context_;
  CUmodule module_;
  CUfunction function_;
};

class Modules {
 public:
  explicit Modules(const Context& context);
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  using Loaded = std::shared_ptr<const Module>;

  // The modules of a plan's kernels, in order. Missing ones are compiled, several at a time, and
  // counted. The context must be current. Throws BackendError with the compiler's message.
  std::vector<Loaded> load(const std::vector<kernel::KernelSource>& sources);
  // The module of a program object that was noted before; null if there is none.
  Loaded find(const std::shared_ptr<const kernel::Program>& program) const;
  void note(const std::shared_ptr<const kernel::Program>& program, const Loaded& module);
  // The function of one of the backend's own kernels, which are not counted and always kept.
  CUfunction own_function(const kernel::KernelSource& source);

  std::size_t count() const;
  // An estimate of the host memory that the modules take. Their code is also in device memory.
  std::uint64_t bytes() const;
  // Unloads the modules that no plan uses.
  void drop_unused();

 private:
  // Loads a binary; compiles again if a cached binary does not load.
  Loaded load(const kernel::KernelSource& source, Compiler::Binary& binary) const;
  // Null if the driver rejects the binary or does not find the kernel in it; `status` says why.
  Loaded try_load(const kernel::KernelSource& source, const std::string& binary,
                  CUresult& status) const;

  const Context& context_;
  const Compiler compiler_;
  mutable std::mutex mutex_;
  mutable ProgramTable<const Module> loaded_;  // by source and by program object
  std::unordered_map<std::string, Loaded> own_;
};

}  // namespace volta::cuda
