// Builds OpenCL programs from kernel sources: each source once per device, or loaded from the disk
// cache. $VOLTA_OPENCL_OPTIONS is appended to the options of the OpenCL compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/common/program_table.h"
#include "backend/opencl/device_info.h"
#include "backend/opencl/handles.h"
#include "kernel/emit.h"

namespace volta::opencl {

// A program with one kernel.
struct BuiltProgram {
  ProgramHandle handle;
  std::string kernel;  // its name
};

// A kernel object and its program.
struct Kernel {
  std::shared_ptr<const BuiltProgram> program;
  KernelHandle handle;
  cl_kernel get() const { return handle.get(); }
};

class Compiler {
 public:
  Compiler(cl_context context, const DeviceInfo& device);

  using Program = std::shared_ptr<const BuiltProgram>;
  using Programs = std::vector<Program>;
  struct Wanted {
    kernel::KernelSource source;
    const std::string* label;
    std::shared_ptr<const kernel::Program> program =
        {};  // that the source was emitted from, if any
  };
  // The built form of a program object that was prepared before; null if there is none.
  Program find(const std::shared_ptr<const kernel::Program>& program);
  // Builds the missing programs in parallel; kernel() finds them as long as the result is kept.
  Programs prepare(std::vector<Wanted> kernels);

  // Makes a new kernel object. `label` names it in errors. Thread-safe.
  Kernel kernel(const std::shared_ptr<const kernel::Program>& program, const std::string& label);
  Kernel kernel(const kernel::KernelSource& source, const std::string& label);

  std::size_t program_count() const;
  // An estimate of the host memory that the programs take.
  std::uint64_t program_bytes() const;
  void drop_unused();

 private:
  struct Built {
    Program program;
    std::uint64_t bytes = 0;  // of the source and the binary
  };
  Built build(const kernel::KernelSource& source, const std::string& label);
  // Null if the driver rejects the binary or does not find the kernel in it.
  Program load(const std::string& binary, const std::string& name);
  static Kernel made(Program program);  // a new kernel object

  cl_context context_;
  const DeviceInfo& device_;
  std::string options_;
  mutable std::mutex mutex_;
  ProgramTable<const BuiltProgram> programs_;  // by source and by program object
};

}  // namespace volta::opencl
