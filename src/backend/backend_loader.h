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

// "CUDA", "OpenCL" or "CPU": a family's name in messages.
VOLTA_BACKEND_API const char* family_label(DeviceType type);

// Where backend libraries may be: beside libvolta, in the installed layout, in VOLTA_BACKEND_PATH.
VOLTA_BACKEND_API std::vector<std::filesystem::path> backend_folders();

// The backend of the first library of the family in `folders` that gives one; null with the reason
// in *why.
VOLTA_BACKEND_API Backend* load_backend(DeviceType type,
                                        std::span<const std::filesystem::path> folders,
                                        std::string* why);

// For tests: when a family is first mentioned its backend is handed to `wrap`, and what that
// returns is used in its place. Null: backends are used as they are.
using WrapBackend = Backend* (*)(DeviceType type, Backend* backend);
VOLTA_BACKEND_API void wrap_backends(WrapBackend wrap);

}  // namespace volta
