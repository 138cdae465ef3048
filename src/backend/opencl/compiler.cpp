// clBuildProgram behind two caches: programs in memory, binaries on disk.
#include "backend/opencl/compiler.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/counting.h"
#include "kernel/cache.h"
#include "kernel/observer.h"
#include "kernel/parallel_compile.h"
#include "platform/env.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::opencl {
namespace {

constexpr int kLogLines = 20;

std::string first_lines(const std::string& text, int lines) {
  std::size_t end = 0;
  for (int line = 0; line < lines && end != std::string::npos; ++line)
    end = text.find('\n', end ? end + 1 : 0);
  return end == std::string::npos ? text : text.substr(0, end) + "\n...";
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) !=
      CL_SUCCESS)
    return {};
  std::string log(bytes, '\0');
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr) !=
      CL_SUCCESS) {
    return {};
  }
  return log.c_str();
}

// The program's binary; empty if the driver provides none.
std::string binary_of(cl_program program) {
  std::size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr) !=
      CL_SUCCESS)
    return {};
  std::string binary(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  if (bytes == 0 ||
      clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, nullptr) != CL_SUCCESS) {
    return {};
  }
  return binary;
}

}  // namespace

Compiler::Compiler(cl_context context, const DeviceInfo& device)
    : context_(context), device_(device) {
  options_ = "-cl-std=CL1.2 -w";  // some drivers print their compiler's warnings themselves
  if (device.rounds_division) options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
  if (const auto extra = platform::environment("VOLTA_OPENCL_OPTIONS")) options_ += " " + *extra;
}

Compiler::Programs Compiler::prepare(std::vector<Wanted> kernels) {
  struct Missing {
    const Wanted* wanted;
    Built built;
  };
  std::vector<Missing> missing;
  Programs programs;
  {
    const std::lock_guard lock(mutex_);
    std::unordered_set<std::string_view> seen;
    for (const Wanted& wanted : kernels) {
      if (!seen.insert(wanted.source.text).second) continue;
      if (Program known = programs_.find(wanted.source.text)) {
        programs.push_back(std::move(known));
      } else {
        missing.push_back({&wanted, {}});
      }
    }
  }
  kernel::compile_parallel(missing.size(), [&](std::size_t i) {
    missing[i].built = build(missing[i].wanted->source, *missing[i].wanted->label);
  });
  const std::lock_guard lock(mutex_);
  for (Missing& m : missing) {
    programs.push_back(
        programs_.insert(m.wanted->source.text, std::move(m.built.program), m.built.bytes));
  }
  for (const Wanted& wanted : kernels) {
    if (wanted.program != nullptr)
      programs_.note(wanted.program, programs_.find(wanted.source.text));
  }
  return programs;
}

Compiler::Program Compiler::find(const std::shared_ptr<const kernel::Program>& program) {
  const std::lock_guard lock(mutex_);
  return programs_.find(program);
}

std::size_t Compiler::program_count() const {
  const std::lock_guard lock(mutex_);
  return programs_.live();
}

std::uint64_t Compiler::program_bytes() const {
  const std::lock_guard lock(mutex_);
  return programs_.bytes();
}

void Compiler::drop_unused() {
  const std::lock_guard lock(mutex_);
  programs_.drop_unused();
}

Kernel Compiler::kernel(const std::shared_ptr<const kernel::Program>& program,
                        const std::string& label) {
  Program known = find(program);
  Kernel result = known != nullptr ? made(std::move(known))
                                   : kernel(kernel::emit(*program, kernel::Dialect::OpenCL), label);
  const auto threads = static_cast<std::size_t>(kernel::block_threads(*program));
  // The kernel declares its size (reqd_work_group_size), so only the device's limit counts: drivers
  // report a smaller guess for the kernel (NVIDIA: 256) but accept the required size.
  const std::size_t limit = device_.max_work_group;
  if (threads > limit) {
    throw BackendError(
        fmt::format("opencl: kernel '{}' needs work-groups of {} but {} takes at most {}", label,
                    threads, device_.name, limit));
  }
  return result;
}

Kernel Compiler::kernel(const kernel::KernelSource& source, const std::string& label) {
  const std::lock_guard lock(mutex_);
  Program program = programs_.find(source.text);
  if (!program) {
    Built built = build(source, label);
    program = programs_.insert(source.text, std::move(built.program), built.bytes);
  }
  return made(std::move(program));
}

Kernel Compiler::made(Program program) {
  cl_int status = CL_SUCCESS;
  KernelHandle handle(clCreateKernel(program->handle.get(), program->kernel.c_str(), &status));
  check(status, "clCreateKernel");
  return {std::move(program), std::move(handle)};
}

Compiler::Built Compiler::build(const kernel::KernelSource& source, const std::string& label) {
  kernel::report_kernel("opencl", source);
  auto& cache = kernel::KernelCache::instance();
  const std::string key =
      kernel::KernelCache::key(source.text, options_, device_.name,
                               fmt::format("{}; {}", device_.platform_name, device_.versions));
  std::string binary;
  if (cache.load(key, binary)) {
    if (Program loaded = load(binary, source.name)) {
      count(live_counters().kernels_loaded);
      return {std::move(loaded), source.text.size() + binary.size()};
    }
    log(LogLevel::info,
        fmt::format("opencl: the cached kernel '{}' does not load; compiling it again", label));
  }

  const char* text = source.text.c_str();
  const std::size_t length = source.text.size();
  cl_int status = CL_SUCCESS;
  ProgramHandle program(clCreateProgramWithSource(context_, 1, &text, &length, &status));
  check(status, "clCreateProgramWithSource");
  status = clBuildProgram(program.get(), 1, &device_.id, options_.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw BackendError(fmt::format("opencl: compiling kernel '{}' for {} failed: {}\n{}", label,
                                   device_.name, status_name(status),
                                   first_lines(build_log(program.get(), device_.id), kLogLines)));
  }
  count(live_counters().compilations);
  binary = binary_of(program.get());
  if (!binary.empty()) cache.store(key, binary);  // replaces one that did not load
  return {std::make_shared<const BuiltProgram>(std::move(program), source.name),
          source.text.size() + binary.size()};
}

Compiler::Program Compiler::load(const std::string& binary, const std::string& name) {
  const auto* data = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t bytes = binary.size();
  cl_int binary_status = CL_SUCCESS, status = CL_SUCCESS;
  ProgramHandle program(
      clCreateProgramWithBinary(context_, 1, &device_.id, &bytes, &data, &binary_status, &status));
  if (status != CL_SUCCESS || binary_status != CL_SUCCESS ||
      clBuildProgram(program.get(), 1, &device_.id, options_.c_str(), nullptr, nullptr) !=
          CL_SUCCESS) {
    return nullptr;
  }
  const KernelHandle found(clCreateKernel(program.get(), name.c_str(), &status));
  if (status != CL_SUCCESS) return nullptr;
  return std::make_shared<const BuiltProgram>(std::move(program), name);
}

}  // namespace volta::opencl
