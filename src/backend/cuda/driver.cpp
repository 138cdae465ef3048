// Finding and opening the driver, NVRTC and cuBLASLt.
#include "backend/cuda/driver.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "platform/env.h"
#include "platform/library.h"

// Two levels of macros, so that the versioned name becomes the string.
#define VOLTA_CUDA_QUOTE(name) #name
#define VOLTA_CUDA_SYMBOL(name) VOLTA_CUDA_QUOTE(name)

namespace volta::cuda {
namespace {

// The folders that are searched for libraries: those named by the user (the parent folder of the
// nvidia wheels will do), the system's search path, then the toolkit's usual places.
std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  const std::string named = platform::environment("VOLTA_CUDA_LIBS").value_or("");
  for (std::size_t begin = 0; begin < named.size();) {
    const std::size_t end = std::min(named.find(':', begin), named.size());
    if (end > begin) {
      const std::string folder = named.substr(begin, end - begin);
      for (const char* inside :
           {"", "/lib", "/cuda_nvrtc/lib", "/cublas/lib", "/cudnn/lib", "/cu13/lib"}) {
        folders.push_back(folder + inside);
      }
    }
    begin = end + 1;
  }
  folders.emplace_back();  // the system's search path
  if (const auto home = platform::environment("CUDA_HOME")) folders.push_back(*home + "/lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  return folders;
}

// Opens the first library found: folder by folder, newest name first.
void* open_first(const std::vector<std::string>& folders,
                 std::initializer_list<const char*> names) {
  for (const std::string& folder : folders) {
    for (const char* name : names) {
      const std::string path = folder.empty() ? name : folder + "/" + name;
      if (void* library = platform::open_library(path, nullptr)) return library;
    }
  }
  return nullptr;
}

template <class Function>
void resolve(void* library, const char* name, Function& function, std::string& missing) {
  function = platform::library_function<Function>(library, name);
  if (function == nullptr && missing.empty()) missing = name;
}

// Each fills a table and returns the name of the first function that the library lacks.
#define VOLTA_CUDA_RESOLVE(name) resolve(library, VOLTA_CUDA_SYMBOL(name), table.name, missing);
std::string fill(void* library, Driver& table) {
  std::string missing;
  VOLTA_CUDA_DRIVER_FUNCTIONS(VOLTA_CUDA_RESOLVE)
  return missing;
}
std::string fill(void* library, Nvrtc& table) {
  std::string missing;
  VOLTA_CUDA_NVRTC_FUNCTIONS(VOLTA_CUDA_RESOLVE)
  return missing;
}
std::string fill(void* library, CublasLt& table) {
  std::string missing;
  VOLTA_CUDA_CUBLASLT_FUNCTIONS(VOLTA_CUDA_RESOLVE)
  return missing;
}
#undef VOLTA_CUDA_RESOLVE

bool open_driver(Libraries& libraries, std::string* why) {
  std::string reason;
  void* library = platform::open_library(
      platform::environment("VOLTA_CUDA_DRIVER").value_or("libcuda.so.1"), &reason);
  if (library == nullptr) {
    *why = "no CUDA driver: " + reason;
    return false;
  }
  if (const std::string missing = fill(library, libraries.driver); !missing.empty()) {
    *why = "the CUDA driver is too old: it has no " + missing;
    return false;
  }
  const Driver& driver = libraries.driver;
  if (const CUresult status = driver.cuInit(0); status != CUDA_SUCCESS) {
    *why = "the CUDA driver does not start: " + describe(driver, status);
    return false;
  }
  if (const CUresult status = driver.cuDeviceGetCount(&libraries.device_count);
      status != CUDA_SUCCESS) {
    *why = "the CUDA driver cannot count its devices: " + describe(driver, status);
    return false;
  }
  if (libraries.device_count == 0) *why = "the CUDA driver sees no device";
  return libraries.device_count > 0;
}

bool open_nvrtc(Libraries& libraries, const std::vector<std::string>& folders, std::string* why) {
  void* library = open_first(folders, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"});
  if (library == nullptr) {
    *why =
        "NVRTC (libnvrtc.so) was not found, so kernels cannot be compiled; install the CUDA "
        "toolkit or name "
        "its folder in VOLTA_CUDA_LIBS";
    return false;
  }
  Nvrtc& nvrtc = libraries.nvrtc;
  if (const std::string missing = fill(library, nvrtc); !missing.empty()) {
    *why = "NVRTC is too old, so kernels cannot be compiled: it has no " + missing;
    return false;
  }
  const nvrtcResult status = nvrtc.nvrtcVersion(&libraries.nvrtc_major, &libraries.nvrtc_minor);
  if (status != NVRTC_SUCCESS) {
    *why = fmt::format("NVRTC does not tell its version: {}", nvrtc.nvrtcGetErrorString(status));
    return false;
  }
  return true;
}

void open_cublas(Libraries& libraries, const std::vector<std::string>& folders) {
  void* library = open_first(folders, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (library == nullptr) {
    libraries.cublas_missing = "libcublasLt.so was not found";
    return;
  }
  if (const std::string missing = fill(library, libraries.cublas); !missing.empty()) {
    libraries.cublas_missing = "libcublasLt.so has no " + missing;
    return;
  }
  libraries.has_cublas = true;
}

}  // namespace

bool open_libraries(Libraries& libraries, std::string* why) {
  if (!open_driver(libraries, why)) return false;
  const std::vector<std::string> folders = library_folders();
  if (!open_nvrtc(libraries, folders, why)) return false;
  open_cublas(libraries, folders);
  return true;
}

void* open_cudnn() { return open_first(library_folders(), {"libcudnn.so.9"}); }

std::string describe(const Driver& driver, CUresult status) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(status, &name) != CUDA_SUCCESS || name == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(status));
  }
  if (driver.cuGetErrorString(status, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{} ({})", text, name);
}

}  // namespace volta::cuda
