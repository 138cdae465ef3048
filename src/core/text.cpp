// Sizes and places as messages tell them.
#include "core/text.h"

#include <string_view>

#include <fmt/format.h>

namespace volta {

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
  const auto value = static_cast<double>(bytes);
  if (bytes >= kGiB) return fmt::format("{:.2f} GiB", value / kGiB);
  if (bytes >= kMiB) return fmt::format("{:.2f} MiB", value / kMiB);
  if (bytes >= kKiB) return fmt::format("{:.2f} KiB", value / kKiB);
  return fmt::format("{} B", bytes);
}

std::string place_text(const Place& place) {
  const std::string_view path = place.file();
  return fmt::format("{}:{}", path.substr(path.find_last_of("/\\") + 1), place.line());
}

}  // namespace volta
