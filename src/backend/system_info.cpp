// How the library was built, and which libraries and devices its backends found.
#include "volta/system_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "backend/registry.h"
#include "core/build_stamp.h"

namespace volta {
namespace {

std::string compiler() {
#ifdef __clang__
  return fmt::format("Clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

// "A=1 B=2" -> {"A=1", "B=2"}
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) found.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

}  // namespace

BuildInfo build_info() {
  return {.version = kVersion,
          .stamp = kBuildStamp,
          .compiler = compiler(),
          .type = VOLTA_BUILD_TYPE,
          .sanitizer = VOLTA_BUILD_SANITIZE,
          .options = words(VOLTA_BUILD_OPTIONS)};
}

std::vector<LibraryInfo> libraries(DeviceType family) {
  const Backend* backend = backend_of(family);
  return backend == nullptr ? std::vector<LibraryInfo>() : backend->libraries();
}

std::optional<std::uint64_t> free_memory(Device device) {
  DeviceEntry& entry = device_entry(device);
  const std::lock_guard lock(entry.lock);
  return entry.backend.free_memory(entry.index);
}

}  // namespace volta
