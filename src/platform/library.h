// Opens shared libraries at run time. An opened library stays open until the process ends.
#pragma once

#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::platform {

// Opens the library at `path`; a bare name follows the system's search. On failure, returns null
// and puts the reason into *why unless `why` is null.
VOLTA_BACKEND_API void* open_library(const std::string& path, std::string* why);

// Returns the address of a symbol of an open library, or null.
VOLTA_BACKEND_API void* library_symbol(void* library, const char* name);

template <class Function>
Function library_function(void* library, const char* name) {
  return reinterpret_cast<Function>(library_symbol(library, name));
}

// "volta_cuda" -> "libvolta_cuda.so".
VOLTA_BACKEND_API std::string library_file_name(std::string_view name);

// Returns the file that holds the code or data at `address`, with symbolic links resolved, or an
// empty string.
VOLTA_BACKEND_API std::string library_path_of(const void* address);

}  // namespace volta::platform
