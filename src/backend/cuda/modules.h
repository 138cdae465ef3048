// The compiled kernels of one device, loaded once each and kept for the device's life.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/cuda/compiler.h"
#include "backend/cuda/context.h"
#include "kernel/emit.h"

namespace volta::cuda {

class Modules {
 public:
  explicit Modules(const Context& context);
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // The functions of a plan's kernels, in order. The missing ones are compiled, several at a time,
  // and counted. The context is current. Throws BackendError with the compiler's words.
  std::vector<CUfunction> functions(const std::vector<kernel::KernelSource>& sources);
  // The function of a kernel that is the backend's own: not counted.
  CUfunction own_function(const kernel::KernelSource& source);

 private:
  struct Loaded {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
  };

  Loaded load(const kernel::KernelSource& source, const std::string& binary) const;

  const Context& context_;
  const Compiler compiler_;
  std::mutex mutex_;
  std::unordered_map<std::string, Loaded> loaded_;  // by source
};

}  // namespace volta::cuda
