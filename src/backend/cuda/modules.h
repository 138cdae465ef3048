// The compiled kernels of one device, loaded once each. Plans own the modules they use; see
// backend/program_table.h for what is kept besides.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/compiler.h"
#include "backend/cuda/context.h"
#include "backend/program_table.h"
#include "kernel/emit.h"

namespace volta::cuda {

// A loaded module of one kernel. Whoever has it waits for its launches before letting it go.
class Module {
 public:
  // The context is current. Takes the module over.
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

  // The modules of a plan's kernels, in order. The missing ones are compiled, several at a time,
  // and counted. The context is current. Throws BackendError with the compiler's words.
  std::vector<Loaded> load(const std::vector<kernel::KernelSource>& sources);
  // The function of a kernel that is the backend's own: not counted, and kept.
  CUfunction own_function(const kernel::KernelSource& source);

  std::size_t count() const;

 private:
  // A cached binary that does not load is compiled again.
  Loaded load(const kernel::KernelSource& source, Compiler::Binary& binary) const;
  // Null if the driver refuses the binary, or finds another kernel in it; `status` says why.
  Loaded try_load(const kernel::KernelSource& source, const std::string& binary,
                  CUresult& status) const;

  const Context& context_;
  const Compiler compiler_;
  mutable std::mutex mutex_;
  ProgramTable<const Module> loaded_;  // by source
  std::unordered_map<std::string, Loaded> own_;
};

}  // namespace volta::cuda
