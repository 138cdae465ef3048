// Finding and opening backend libraries. Every failure becomes a reason in text, never an
// exception.
#include "backend/backend_loader.h"

#include <algorithm>
#include <exception>
#include <system_error>

#include "backend/registry.h"
#include "core/build_stamp.h"
#include "platform/env.h"
#include "platform/library.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

// Asks one library for its backend; returns null with the reason in *why.
Backend* create_from(const fs::path& file, std::string* why) {
  void* library = platform::open_library(file.string(), why);
  if (library == nullptr) {
    *why = file.filename().string() + " could not be loaded: " + *why;
    return nullptr;
  }
  const auto create = platform::library_function<CreateBackend>(library, kCreateBackendSymbol);
  if (create == nullptr) {
    *why = file.string() + " is not a Volta backend: it has no symbol " + kCreateBackendSymbol;
    return nullptr;
  }
  const char* reason = nullptr;
  try {
    Backend* backend = create(kBuildStamp, &reason);
    if (backend == nullptr)
      *why = reason != nullptr ? reason : file.string() + " refused without a reason";
    return backend;
  } catch (const std::exception& error) {
    *why = error.what();
    return nullptr;
  }
}

}  // namespace

const char* family_label(DeviceType type) {
  constexpr const char* labels[] = {"CPU", "CUDA", "OpenCL"};
  return labels[static_cast<int>(type)];
}

std::vector<fs::path> backend_folders() {
  std::vector<fs::path> folders;
  const std::string self =
      platform::library_path_of(reinterpret_cast<const void*>(&backend_folders));
  if (!self.empty()) {
    const fs::path beside = fs::path(self).parent_path();
    folders.push_back(beside);
    folders.push_back(beside.parent_path() / "lib" / "volta");
  }
  const std::string extra = platform::environment("VOLTA_BACKEND_PATH").value_or("");
  for (std::size_t begin = 0; begin < extra.size();) {
    const std::size_t end = std::min(extra.find(':', begin), extra.size());
    if (end > begin) folders.emplace_back(extra.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

Backend* load_backend(DeviceType type, std::span<const fs::path> folders, std::string* why) {
  const std::string file = platform::library_file_name("volta_" + std::string(family_name(type)));
  std::string first_reason;
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    if (!fs::exists(folder / file, ignored)) continue;
    std::string reason;
    if (Backend* backend = create_from(folder / file, &reason)) return backend;
    if (first_reason.empty()) first_reason = reason;
  }
  *why = !first_reason.empty() ? first_reason
                               : std::string("the ") + family_label(type) +
                                     " backend is not built or not installed (" + file +
                                     " not found beside libvolta or in VOLTA_BACKEND_PATH)";
  return nullptr;
}

}  // namespace volta
