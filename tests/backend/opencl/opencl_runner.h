// Runs samples through the raw OpenCL API, opened at run time.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/emit.h"
#include "kernel/kernel_samples.h"
#include "kernel/observer.h"

namespace volta::testing {

// The OpenCL 1.2 calls that the runner needs, opened at run time, so that the tests need no headers
// and no loader.
struct OpenClApi {
  using cl_int = std::int32_t;
  using cl_uint = std::uint32_t;
  using cl_ulong = std::uint64_t;
  using Handle = struct OpenClObject*;  // any of OpenCL's objects
  static constexpr cl_int kSuccess = 0;
  static constexpr cl_uint kTrue = 1, kBuildLog = 0x1183;
  static constexpr cl_ulong kGpus = 4, kAllDevices = 0xffffffff, kReadWriteCopyOfHost = 1 | 32;

  OpenClApi() {
    library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    find(get_platforms, "clGetPlatformIDs");
    find(get_devices, "clGetDeviceIDs");
    find(create_context, "clCreateContext");
    find(create_queue, "clCreateCommandQueue");
    find(release_queue, "clReleaseCommandQueue");
    find(release_context, "clReleaseContext");
    find(create_program, "clCreateProgramWithSource");
    find(build_program, "clBuildProgram");
    find(get_build_info, "clGetProgramBuildInfo");
    find(release_program, "clReleaseProgram");
    find(create_kernel, "clCreateKernel");
    find(release_kernel, "clReleaseKernel");
    find(set_kernel_arg, "clSetKernelArg");
    find(create_buffer, "clCreateBuffer");
    find(release_memory, "clReleaseMemObject");
    find(launch, "clEnqueueNDRangeKernel");
    find(read_buffer, "clEnqueueReadBuffer");
    find(finish, "clFinish");
  }

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("OpenCL: no symbol ") + name);
  }

  void* library = nullptr;
  cl_int (*get_platforms)(cl_uint, Handle*, cl_uint*) = nullptr;
  cl_int (*get_devices)(Handle, cl_ulong, cl_uint, Handle*, cl_uint*) = nullptr;
  Handle (*create_context)(const void*, cl_uint, const Handle*, void*, void*, cl_int*) = nullptr;
  Handle (*create_queue)(Handle, Handle, cl_ulong, cl_int*) = nullptr;
  cl_int (*release_queue)(Handle) = nullptr;
  cl_int (*release_context)(Handle) = nullptr;
  Handle (*create_program)(Handle, cl_uint, const char**, const std::size_t*, cl_int*) = nullptr;
  cl_int (*build_program)(Handle, cl_uint, const Handle*, const char*, void*, void*) = nullptr;
  cl_int (*get_build_info)(Handle, Handle, cl_uint, std::size_t, void*, std::size_t*) = nullptr;
  cl_int (*release_program)(Handle) = nullptr;
  Handle (*create_kernel)(Handle, const char*, cl_int*) = nullptr;
  cl_int (*release_kernel)(Handle) = nullptr;
  cl_int (*set_kernel_arg)(Handle, cl_uint, std::size_t, const void*) = nullptr;
  Handle (*create_buffer)(Handle, cl_ulong, std::size_t, void*, cl_int*) = nullptr;
  cl_int (*release_memory)(Handle) = nullptr;
  cl_int (*launch)(Handle, Handle, cl_uint, const std::size_t*, const std::size_t*,
                   const std::size_t*, cl_uint, const Handle*, Handle*) = nullptr;
  cl_int (*read_buffer)(Handle, Handle, cl_uint, std::size_t, std::size_t, void*, cl_uint,
                        const Handle*, Handle*) = nullptr;
  cl_int (*finish)(Handle) = nullptr;
};

// Runs samples with the emitter's calling convention, without a backend.
class OpenClRunner {
 public:
  // Slots start at this offset in their buffers, so that offsets are tested.
  static constexpr std::int64_t kOffset = 64;
  static constexpr std::byte kGuard{0xff};

  OpenClRunner() {
    if (api_.library == nullptr) return;
    Handle platforms[8];
    cl_uint platform_count = 0;
    if (api_.get_platforms(8, platforms, &platform_count) != OpenClApi::kSuccess) return;
    // A GPU if there is one.
    for (const cl_ulong kind : {OpenClApi::kGpus, OpenClApi::kAllDevices}) {
      for (cl_uint n = 0; n < std::min<cl_uint>(platform_count, 8) && device_ == nullptr; ++n) {
        if (api_.get_devices(platforms[n], kind, 1, &device_, nullptr) != OpenClApi::kSuccess)
          device_ = nullptr;
      }
    }
    if (device_ == nullptr) return;
    cl_int status = OpenClApi::kSuccess;
    context_ = api_.create_context(nullptr, 1, &device_, nullptr, nullptr, &status);
    check(status, "clCreateContext");
    queue_ = api_.create_queue(context_, device_, 0, &status);
    check(status, "clCreateCommandQueue");
  }
  ~OpenClRunner() {
    if (queue_ != nullptr) api_.release_queue(queue_);
    if (context_ != nullptr) api_.release_context(context_);
  }
  OpenClRunner(const OpenClRunner&) = delete;
  OpenClRunner& operator=(const OpenClRunner&) = delete;

  bool present() const { return device_ != nullptr; }

  // Runs all bindings; `buffers` contains the slots of each.
  void run(const Sample& sample, std::vector<std::vector<Bytes>>& buffers,
           kernel::ErrorRecord& error) {
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::OpenCL);
    Handle program = build(source);
    cl_int status = OpenClApi::kSuccess;
    Handle kernel = api_.create_kernel(program, source.name.c_str(), &status);
    check(status, "clCreateKernel");
    Handle record = upload(&error, sizeof error);
    if (sample.program.schedule.horizontal) {
      run_segments(kernel, sample, buffers, record);
    } else {
      for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
        run_binding(kernel, sample.program, sample.bindings[n], buffers[n], record);
      }
    }
    download(record, &error, sizeof error, 0);
    api_.release_memory(record);
    api_.release_kernel(kernel);
    api_.release_program(program);
  }

 private:
  using Handle = OpenClApi::Handle;
  using cl_int = OpenClApi::cl_int;
  using cl_uint = OpenClApi::cl_uint;
  using cl_ulong = OpenClApi::cl_ulong;

  static void check(cl_int status, const char* call) {
    if (status != OpenClApi::kSuccess)
      throw std::runtime_error(std::string(call) + ": status " + std::to_string(status));
  }

  Handle build(const kernel::KernelSource& source) {
    kernel::report_kernel("opencl", source);
    const char* text = source.text.c_str();
    cl_int status = OpenClApi::kSuccess;
    Handle program = api_.create_program(context_, 1, &text, nullptr, &status);
    check(status, "clCreateProgramWithSource");
    if (api_.build_program(program, 1, &device_, "-cl-std=CL1.2", nullptr, nullptr) ==
        OpenClApi::kSuccess)
      return program;
    std::string log(1 << 16, '\0');
    api_.get_build_info(program, device_, OpenClApi::kBuildLog, log.size(), log.data(), nullptr);
    throw std::runtime_error("clBuildProgram: " + log + "\n" + source.text);
  }

  Handle upload(const void* bytes, std::size_t size) {
    cl_int status = OpenClApi::kSuccess;
    Handle memory = api_.create_buffer(context_, OpenClApi::kReadWriteCopyOfHost, size,
                                       const_cast<void*>(bytes), &status);
    check(status, "clCreateBuffer");
    return memory;
  }

  // Uploads bytes between guards on both sides, which are NaN for floats and must not change.
  Handle upload_guarded(const Bytes& bytes) {
    Bytes guarded(bytes.size() + 2 * kOffset, kGuard);
    std::copy(bytes.begin(), bytes.end(), guarded.begin() + kOffset);
    return upload(guarded.data(), guarded.size());
  }

  void download_guarded(Handle memory, Bytes& bytes) {
    Bytes guarded(bytes.size() + 2 * kOffset);
    download(memory, guarded.data(), guarded.size(), 0);
    const auto first = guarded.begin() + kOffset, last = guarded.end() - kOffset;
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    if (!std::all_of(guarded.begin(), first, is_guard) ||
        !std::all_of(last, guarded.end(), is_guard))
      throw std::runtime_error("a kernel wrote outside of a slot");
    std::copy(first, last, bytes.begin());
  }

  void download(Handle memory, void* to, std::size_t size, std::size_t offset) {
    check(api_.read_buffer(queue_, memory, OpenClApi::kTrue, offset, size, to, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
  }

  template <class T>
  void set(Handle kernel, cl_uint& n, const T& value) {
    set(kernel, n, &value, sizeof value);
  }
  void set(Handle kernel, cl_uint& n, const void* value, std::size_t size) {
    check(api_.set_kernel_arg(kernel, n++, size, value), "clSetKernelArg");
  }

  void launch(Handle kernel, const kernel::Program& program, std::int64_t blocks) {
    if (blocks == 0) return;
    const std::size_t local = static_cast<std::size_t>(kernel::block_threads(program));
    const std::size_t global = local * static_cast<std::size_t>(blocks);
    check(api_.launch(queue_, kernel, 1, nullptr, &global, &local, 0, nullptr, nullptr), "launch");
    check(api_.finish(queue_), "clFinish");
  }

  void run_binding(Handle kernel, const kernel::Program& program, const SampleBinding& binding,
                   std::vector<Bytes>& buffers, Handle record) {
    cl_uint n = 0;
    std::vector<Handle> memory;
    for (const Bytes& bytes : buffers) {
      memory.push_back(upload_guarded(bytes));
      set(kernel, n, memory.back());
      set(kernel, n, static_cast<cl_ulong>(kOffset));
    }
    if (!program.args.empty()) {
      std::vector<std::uint64_t> words = {0, 0};
      words.insert(words.end(), binding.args.begin(), binding.args.end());
      memory.push_back(upload(words.data(), words.size() * 8));
      set(kernel, n, memory.back());
      set(kernel, n, cl_ulong{2});
    }
    if (kernel::analyze(program).has_bounded) set(kernel, n, record);
    std::vector<std::int32_t> narrow(binding.ints.begin(), binding.ints.end());
    if (!narrow.empty() && program.schedule.index64)
      set(kernel, n, binding.ints.data(), narrow.size() * 8);
    if (!narrow.empty() && !program.schedule.index64)
      set(kernel, n, narrow.data(), narrow.size() * 4);
    launch(kernel, program, kernel::block_count(program, binding.ints));
    for (std::size_t slot = 0; slot < buffers.size(); ++slot) {
      download_guarded(memory[slot], buffers[slot]);
    }
    for (Handle each : memory) api_.release_memory(each);
  }

  // Base number n contains slot n of all segments, one after the other.
  void run_segments(Handle kernel, const Sample& sample, std::vector<std::vector<Bytes>>& buffers,
                    Handle record) {
    const std::size_t slots = sample.program.slots.size();
    std::vector<Bytes> bases(kernel::kHorizontalBases, Bytes(kOffset));
    std::vector<std::uint64_t> table, args;
    std::int64_t blocks = 0;
    for (std::size_t s = 0; s < sample.bindings.size(); ++s) {
      const SampleBinding& binding = sample.bindings[s];
      table.push_back(static_cast<std::uint64_t>(blocks));
      blocks += kernel::block_count(sample.program, binding.ints);
      for (const std::int64_t value : binding.ints) table.push_back(int_arg(value));
      for (std::size_t slot = 0; slot < slots; ++slot) {
        table.push_back(std::uint64_t{slot} << 56 | bases[slot].size());
        bases[slot].insert(bases[slot].end(), buffers[s][slot].begin(), buffers[s][slot].end());
        bases[slot].resize((bases[slot].size() + 15) / 16 * 16);
      }
      table.push_back(args.size());
      args.insert(args.end(), binding.args.begin(), binding.args.end());
    }
    cl_uint n = 0;
    std::vector<Handle> memory = {upload(table.data(), table.size() * 8)};
    set(kernel, n, memory[0]);
    set(kernel, n, static_cast<cl_int>(sample.bindings.size()));
    if (!args.empty()) {
      memory.push_back(upload(args.data(), args.size() * 8));
      set(kernel, n, memory.back());
      set(kernel, n, cl_ulong{0});
    }
    if (kernel::analyze(sample.program).has_bounded) set(kernel, n, record);
    const std::size_t first_base = memory.size();
    for (const Bytes& base : bases) {
      memory.push_back(upload(base.data(), base.size()));
      set(kernel, n, memory.back());
    }
    launch(kernel, sample.program, blocks);
    for (std::size_t s = 0; s < sample.bindings.size(); ++s) {
      const std::size_t row = s * static_cast<std::size_t>(kernel::row_words(sample.program));
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::uint64_t address = table[row + 1 + sample.bindings[s].ints.size() + slot];
        download(memory[first_base + slot], buffers[s][slot].data(), buffers[s][slot].size(),
                 address & 0xffffffffffffff);
      }
    }
    for (Handle each : memory) api_.release_memory(each);
  }

  const OpenClApi api_;
  Handle device_ = nullptr;
  Handle context_ = nullptr;
  Handle queue_ = nullptr;
};

}  // namespace volta::testing
