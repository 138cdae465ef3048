// Turns kernel sources into OpenCL programs: each source once per device, from the disk cache if it
// is there. $VOLTA_OPENCL_OPTIONS is appended to the options of the OpenCL compiler.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/opencl/device_info.h"
#include "backend/opencl/handles.h"
#include "kernel/emit.h"

namespace volta::opencl {

class Compiler {
 public:
  Compiler(cl_context context, const DeviceInfo& device);

  struct Wanted {
    std::string source;
    const std::string* label;
  };
  // Builds those that are missing, side by side; kernel() finds them then.
  void prepare(std::vector<Wanted> kernels);

  // A new kernel object of the program. `label` names it in errors. Safe to call from several
  // threads.
  KernelHandle kernel(const kernel::Program& program, const std::string& label);
  KernelHandle kernel(const kernel::KernelSource& source, const std::string& label);

 private:
  ProgramHandle build(const std::string& source, const std::string& label);
  ProgramHandle load(const std::string& binary);

  cl_context context_;
  const DeviceInfo& device_;
  std::string options_;
  std::mutex mutex_;
  std::unordered_map<std::string, ProgramHandle> programs_;  // by source
};

}  // namespace volta::opencl
