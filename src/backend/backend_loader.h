// Finding and opening backend libraries.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// The name of a family in messages: "CUDA", "OpenCL" or "CPU".
VOLTA_BACKEND_API const char* family_label(DeviceType type);

// The folders in which backend libraries may be: beside libvolta, in the installed layout, in
// VOLTA_BACKEND_PATH.
VOLTA_BACKEND_API std::vector<std::filesystem::path> backend_folders();

// The backend from the first library in `folders` that provides one for the family; null, with the
// reason in *why, if none does.
VOLTA_BACKEND_API Backend* load_backend(DeviceType type,
                                        std::span<const std::filesystem::path> folders,
                                        std::string* why);

// For tests: when a family is first named, its backend is passed to `wrap`, and the backend that
// `wrap` returns is used instead. Null turns wrapping off.
using WrapBackend = Backend* (*)(DeviceType type, Backend* backend);
VOLTA_BACKEND_API void wrap_backends(WrapBackend wrap);

}  // namespace volta
