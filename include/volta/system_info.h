// How this library was built, and the libraries and devices it finds on this machine: for `volta
// info` and bug reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// How libvolta was built.
struct BuildInfo {
  std::string version;               // "major.minor.patch"
  std::string stamp;                 // backend libraries are loaded only if theirs is the same
  std::string compiler;              // "GCC 12.2.0"
  std::string type;                  // "Release"
  std::string sanitizer;             // "address,undefined", or empty
  std::vector<std::string> options;  // "VOLTA_ONEDNN=ON", ...
};
VOLTA_API BuildInfo build_info();

// A library that Volta uses for computation or for reading files.
struct LibraryInfo {
  std::string name;
  std::string version;    // version that is loaded now; empty if absent
  std::string note = {};  // why it is absent, or other information
};

// Returns the libraries that a device family's backend uses: driver, compiler, matrix products.
// Loads the backend; empty if the family is absent.
VOLTA_API std::vector<LibraryInfo> libraries(DeviceType family);
// Returns the libraries that read compressed files and images.
VOLTA_API std::vector<LibraryInfo> file_libraries();

// Returns why a family has no devices ("no CUDA driver: libcuda.so.1: ..."), or an empty string if
// it has some. Loads the backend.
VOLTA_API std::string why_absent(DeviceType family);

// Returns the free bytes of the device's memory, or nothing if the driver does not report them
// (OpenCL). Opens the device if it is a GPU.
VOLTA_API std::optional<std::uint64_t> free_memory(Device device);

}  // namespace volta
