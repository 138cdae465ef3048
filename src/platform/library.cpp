// Opens shared libraries at run time and reports the loader's own message on failure.
#include "platform/library.h"

#include <dlfcn.h>
#include <link.h>

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
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      info.dli_fname == nullptr)
    return {};
  // For the program itself the loader only knows argv[0], which may have been found by the search
  // path.
  const bool program = map != nullptr && *map->l_name == '\0';
  std::error_code failure;
  const auto resolved =
      std::filesystem::canonical(program ? "/proc/self/exe" : info.dli_fname, failure);
  return failure ? std::string(info.dli_fname) : resolved.string();
}

}  // namespace volta::platform
