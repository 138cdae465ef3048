// Compiles CUDA C++ with NVRTC, opened at run time, for tests on machines with a toolkit but
// possibly without a GPU.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace volta::testing {

class Nvrtc {
 public:
  Nvrtc() {
    for (const char* name :
         {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"}) {
      library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library_ != nullptr) break;
    }
    if (library_ == nullptr) return;
    find(create_, "nvrtcCreateProgram");
    find(compile_, "nvrtcCompileProgram");
    find(destroy_, "nvrtcDestroyProgram");
    find(log_size_, "nvrtcGetProgramLogSize");
    find(log_, "nvrtcGetProgramLog");
    find(cubin_size_, "nvrtcGetCUBINSize");
    find(cubin_, "nvrtcGetCUBIN");
    find(ptx_size_, "nvrtcGetPTXSize");
    find(ptx_, "nvrtcGetPTX");
  }

  bool present() const { return library_ != nullptr; }

  // The cubin of `source` for an architecture such as "sm_90"; throws with the compiler's message.
  std::string compile(const std::string& source, const std::string& architecture) const {
    return translate(source, architecture, cubin_size_, cubin_).result;
  }
  // The assembler's report on registers and local memory.
  std::string resources(const std::string& source, const std::string& architecture) const {
    return translate(source, architecture, cubin_size_, cubin_).log;
  }
  // The PTX for an architecture such as "compute_90".
  std::string ptx(const std::string& source, const std::string& architecture) const {
    return translate(source, architecture, ptx_size_, ptx_).result;
  }

 private:
  using GetSize = int (*)(void*, std::size_t*);
  using Get = int (*)(void*, char*);

  struct Translation {
    std::string result, log;
  };

  Translation translate(const std::string& source, const std::string& architecture,
                        GetSize get_size, Get get) const {
    void* program = nullptr;
    check(create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
    const std::string target = "--gpu-architecture=" + architecture;
    // Results from the compiler's cache have no log.
    const char* options[] = {target.c_str(), "--ptxas-options=--verbose", "--no-cache"};
    const int status = compile_(program, 3, options);
    std::size_t size = 0;
    log_size_(program, &size);
    std::string log(size, '\0');
    log_(program, log.data());
    std::string result;
    if (status == 0) {
      check(get_size(program, &size), "the size of NVRTC's result");
      result.resize(size);
      check(get(program, result.data()), "NVRTC's result");
    }
    destroy_(&program);
    if (status != 0) throw std::runtime_error("nvrtc: " + log + "\n" + source);
    return {result, log};
  }

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error(std::string("nvrtc: no symbol ") + name);
  }
  static void check(int status, const char* call) {
    if (status != 0)
      throw std::runtime_error(std::string(call) + ": status " + std::to_string(status));
  }

  void* library_ = nullptr;
  int (*create_)(void**, const char*, const char*, int, const char* const*,
                 const char* const*) = nullptr;
  int (*compile_)(void*, int, const char* const*) = nullptr;
  int (*destroy_)(void**) = nullptr;
  GetSize log_size_ = nullptr, cubin_size_ = nullptr, ptx_size_ = nullptr;
  Get log_ = nullptr, cubin_ = nullptr, ptx_ = nullptr;
};

}  // namespace volta::testing
