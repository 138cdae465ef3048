// NVRTC: compiles CUDA C++ source to a binary that the driver loads; binaries are kept in the disk
// cache.
#pragma once

#include <string>

#include "backend/cuda/driver.h"
#include "kernel/emit.h"

namespace volta::cuda {

class Compiler {
 public:
  // Compiles for devices of one compute capability, such as 90. Throws BackendError if NVRTC
  // cannot.
  Compiler(const Libraries& libraries, int compute_capability);

  struct Binary {
    std::string bytes;
    bool cached = false;  // taken from the disk cache
  };
  // The binary from the disk cache, or compiled and stored there. Thread-safe. Throws BackendError
  // with the compiler's log.
  Binary binary(const kernel::KernelSource& source) const;
  // Compiles again and replaces a cached binary that the driver rejected.
  Binary compiled(const kernel::KernelSource& source) const;

 private:
  std::string key(const kernel::KernelSource& source) const;
  std::string compile(const kernel::KernelSource& source) const;

  const Nvrtc& nvrtc_;
  std::string architecture_;  // "sm_90", or "compute_90" if NVRTC can only produce PTX
  bool ptx_ = false;
  std::string compiler_;  // "nvrtc 13.0"
};

}  // namespace volta::cuda
