// NVRTC: CUDA C++ source to a binary the driver loads, by way of the disk cache.
#pragma once

#include <string>

#include "backend/cuda/driver.h"
#include "kernel/emit.h"

namespace volta::cuda {

class Compiler {
 public:
  // For devices of a compute capability, such as 90. Throws BackendError when NVRTC cannot compile
  // for it.
  Compiler(const Libraries& libraries, int compute_capability);

  struct Binary {
    std::string bytes;
    bool cached = false;  // taken from the disk cache
  };
  // The binary from the disk cache, or compiled and stored there. Safe to call from several
  // threads. Throws BackendError with the compiler's log.
  Binary binary(const kernel::KernelSource& source) const;
  // Compiled, and stored in place of a cached one that the driver does not take.
  Binary compiled(const kernel::KernelSource& source) const;

 private:
  std::string key(const kernel::KernelSource& source) const;
  std::string compile(const kernel::KernelSource& source) const;

  const Nvrtc& nvrtc_;
  std::string architecture_;  // "sm_90", or "compute_90" when only PTX can be made
  bool ptx_ = false;
  std::string compiler_;  // "nvrtc 13.0"
};

}  // namespace volta::cuda
