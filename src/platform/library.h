// Opening shared libraries at run time. A library once opened stays open until the process ends.
#pragma once

#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::platform {

// Opens the library at `path` (a bare name follows the system's search). Returns null and the
// reason in *why when that fails; `why` may be null.
VOLTA_BACKEND_API void* open_library(const std::string& path, std::string* why);

// The address of a symbol of an open library, or null.
VOLTA_BACKEND_API void* library_symbol(void* library, const char* name);

template <class Function>
Function library_function(void* library, const char* name) {
  return reinterpret_cast<Function>(library_symbol(library, name));
}

// "volta_cuda" -> "libvolta_cuda.so".
VOLTA_BACKEND_API std::string library_file_name(std::string_view name);

// The file that holds the code or data at `address`, with symbolic links resolved; empty when
// unknown.
VOLTA_BACKEND_API std::string library_path_of(const void* address);

}  // namespace volta::platform
