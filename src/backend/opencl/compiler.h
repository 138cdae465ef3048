// Turns kernel sources into OpenCL programs: each source once per device, from the disk cache if it
// is there. $VOLTA_OPENCL_OPTIONS is appended to the options of the OpenCL compiler.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/opencl/device_info.h"
#include "backend/opencl/handles.h"
#include "backend/program_table.h"
#include "kernel/emit.h"

namespace volta::opencl {

// A kernel object and the program it is of.
struct Kernel {
  std::shared_ptr<const ProgramHandle> program;
  KernelHandle handle;
  cl_kernel get() const { return handle.get(); }
};

class Compiler {
 public:
  Compiler(cl_context context, const DeviceInfo& device);

  struct Wanted {
    kernel::KernelSource source;
    const std::string* label;
  };
  using Programs = std::vector<std::shared_ptr<const ProgramHandle>>;
  // Builds those that are missing, side by side; kernel() finds them as long as the result is kept.
  Programs prepare(std::vector<Wanted> kernels);

  // A new kernel object of the program. `label` names it in errors. Safe to call from several
  // threads.
  Kernel kernel(const kernel::Program& program, const std::string& label);
  Kernel kernel(const kernel::KernelSource& source, const std::string& label);

  std::size_t program_count() const;

 private:
  using Program = std::shared_ptr<const ProgramHandle>;
  Program build(const kernel::KernelSource& source, const std::string& label);
  // Null if the driver refuses the binary, or finds another kernel in it.
  Program load(const std::string& binary, const std::string& name);

  cl_context context_;
  const DeviceInfo& device_;
  std::string options_;
  mutable std::mutex mutex_;
  ProgramTable<const ProgramHandle> programs_;  // by source
};

}  // namespace volta::opencl
