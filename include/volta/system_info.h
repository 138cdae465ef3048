// What this library was built with, and what it finds on this machine: for `volta info` and reports
// of problems.
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
  std::string stamp;                 // what a backend library must share to be loaded
  std::string compiler;              // "GCC 12.2.0"
  std::string type;                  // "Release"
  std::string sanitizer;             // "address,undefined", or nothing
  std::vector<std::string> options;  // "VOLTA_ONEDNN=ON", ...
};
VOLTA_API BuildInfo build_info();

// A library that Volta computes or reads files with.
struct LibraryInfo {
  std::string name;
  std::string version;    // of what is loaded now; empty where it is absent
  std::string note = {};  // why it is absent, or what else there is to know
};

// What the backend of a family computes with: a driver, a compiler, libraries of products. Loads
// the backend; empty where the family is absent.
VOLTA_API std::vector<LibraryInfo> libraries(DeviceType family);
// What compressed files and images are read with.
VOLTA_API std::vector<LibraryInfo> file_libraries();

// Why a family has no devices ("no CUDA driver: libcuda.so.1: ..."); empty where it has some. Loads
// the backend.
VOLTA_API std::string why_absent(DeviceType family);

// Bytes of the device's memory that nobody uses at this moment; nothing where the driver does not
// tell (OpenCL). On a GPU this opens the device.
VOLTA_API std::optional<std::uint64_t> free_memory(Device device);

}  // namespace volta
