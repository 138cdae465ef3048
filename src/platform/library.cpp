// Opening shared libraries at run time, with the loader's own words when it fails.
#include "platform/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace volta::platform {

void* open_library(const std::string& path, std::string* why) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && why != nullptr) {
    const char* reason = dlerror();
    *why = reason != nullptr ? reason : path + ": unknown loader error";
  }
  return library;
}

void* library_symbol(void* library, const char* name) { return dlsym(library, name); }

std::string library_file_name(std::string_view name) { return "lib" + std::string(name) + ".so"; }

std::string library_path_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failure;
  const auto resolved = std::filesystem::canonical(info.dli_fname, failure);
  return failure ? std::string(info.dli_fname) : resolved.string();
}

}  // namespace volta::platform
