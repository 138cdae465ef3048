// Compiling kernels with NVRTC.
#include "backend/cuda/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernel/cache.h"
#include "kernel/observer.h"
#include "volta/error.h"

namespace volta::cuda {
namespace {

constexpr const char* kDefaultDevice = "-default-device";
constexpr const char* kStandard = "--std=c++17";

void check(const Nvrtc& nvrtc, nvrtcResult status, const char* doing) {
  if (status == NVRTC_SUCCESS) return;
  throw BackendError(fmt::format("NVRTC: {} failed: {}", doing, nvrtc.nvrtcGetErrorString(status)));
}

// Owns an nvrtcProgram.
class NvrtcProgram {
 public:
  NvrtcProgram(const Nvrtc& nvrtc, const kernel::KernelSource& source) : nvrtc_(nvrtc) {
    const std::string file = source.name + ".cu";
    check(
        nvrtc,
        nvrtc.nvrtcCreateProgram(&program_, source.text.c_str(), file.c_str(), 0, nullptr, nullptr),
        "taking a kernel's source");
  }
  ~NvrtcProgram() { nvrtc_.nvrtcDestroyProgram(&program_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  nvrtcProgram get() const { return program_; }

  std::string log() const {
    std::size_t size = 0;
    check(nvrtc_, nvrtc_.nvrtcGetProgramLogSize(program_, &size), "reading the log's size");
    std::string text(size, '\0');
    if (size > 0)
      check(nvrtc_, nvrtc_.nvrtcGetProgramLog(program_, text.data()), "reading the log");
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

 private:
  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

Compiler::Compiler(const Libraries& libraries, int compute_capability)
    : nvrtc_(libraries.nvrtc),
      compiler_(fmt::format("nvrtc {}.{}", libraries.nvrtc_major, libraries.nvrtc_minor)) {
  int count = 0;
  check(nvrtc_, nvrtc_.nvrtcGetNumSupportedArchs(&count), "counting architectures");
  std::vector<int> supported(static_cast<std::size_t>(std::max(count, 1)), 0);
  check(nvrtc_, nvrtc_.nvrtcGetSupportedArchs(supported.data()), "listing architectures");
  if (std::find(supported.begin(), supported.end(), compute_capability) != supported.end()) {
    architecture_ = fmt::format("sm_{}", compute_capability);
    return;
  }
  // For a device newer than this NVRTC, the driver compiles PTX for the newest architecture known.
  int newest = 0;
  for (const int known : supported) {
    if (known <= compute_capability) newest = std::max(newest, known);
  }
  if (newest == 0) {
    throw BackendError(fmt::format("{} cannot compile for compute capability {}.{}", compiler_,
                                   compute_capability / 10, compute_capability % 10));
  }
  architecture_ = fmt::format("compute_{}", newest);
  ptx_ = true;
}

std::string Compiler::compile(const kernel::KernelSource& source) const {
  const NvrtcProgram program(nvrtc_, source);
  const std::string target = "--gpu-architecture=" + architecture_;
  const std::array options{target.c_str(), kDefaultDevice, kStandard};
  const nvrtcResult status =
      nvrtc_.nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (status != NVRTC_SUCCESS) {
    throw BackendError(fmt::format("NVRTC: kernel {} does not compile for {}: {}\n{}", source.name,
                                   architecture_, nvrtc_.nvrtcGetErrorString(status),
                                   program.log()));
  }
  std::size_t size = 0;
  check(nvrtc_,
        ptx_ ? nvrtc_.nvrtcGetPTXSize(program.get(), &size)
             : nvrtc_.nvrtcGetCUBINSize(program.get(), &size),
        "reading the binary's size");
  std::string binary(size, '\0');
  check(nvrtc_,
        ptx_ ? nvrtc_.nvrtcGetPTX(program.get(), binary.data())
             : nvrtc_.nvrtcGetCUBIN(program.get(), binary.data()),
        "reading the binary");
  return binary;
}

std::string Compiler::key(const kernel::KernelSource& source) const {
  return kernel::KernelCache::key(source.text, fmt::format("{} {}", kDefaultDevice, kStandard),
                                  architecture_, compiler_);
}

Compiler::Binary Compiler::binary(const kernel::KernelSource& source) const {
  kernel::report_kernel("cuda", source);
  Binary binary;
  binary.cached = kernel::KernelCache::instance().load(key(source), binary.bytes);
  return binary.cached ? binary : compiled(source);
}

Compiler::Binary Compiler::compiled(const kernel::KernelSource& source) const {
  Binary binary{compile(source), false};
  kernel::KernelCache::instance().store(key(source), binary.bytes);
  return binary;
}

}  // namespace volta::cuda
