// Compiles CUDA C++ with NVRTC, opened at run time, for tests on machines with a toolkit and
// perhaps no GPU.
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
  }

  bool present() const { return library_ != nullptr; }

  // The cubin of `source` for an architecture such as "sm_90"; throws with the compiler's words.
  std::string compile(const std::string& source, const std::string& architecture) const {
    void* program = nullptr;
    check(create_(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
    const std::string target = "--gpu-architecture=" + architecture;
    const char* options[] = {target.c_str()};
    const int status = compile_(program, 1, options);
    std::size_t size = 0;
    log_size_(program, &size);
    std::string log(size, '\0');
    log_(program, log.data());
    std::string cubin;
    if (status == 0) {
      check(cubin_size_(program, &size), "nvrtcGetCUBINSize");
      cubin.resize(size);
      check(cubin_(program, cubin.data()), "nvrtcGetCUBIN");
    }
    destroy_(&program);
    if (status != 0) throw std::runtime_error("nvrtc: " + log + "\n" + source);
    return cubin;
  }

 private:
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
  int (*log_size_)(void*, std::size_t*) = nullptr;
  int (*log_)(void*, char*) = nullptr;
  int (*cubin_size_)(void*, std::size_t*) = nullptr;
  int (*cubin_)(void*, char*) = nullptr;
};

}  // namespace volta::testing
