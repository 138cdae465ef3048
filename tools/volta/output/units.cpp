// Numbers in a readable form.
#include "output/units.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace volta::cli {

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // Without this, 1023.95 would be rounded to 1024.0.
  while (value >= 1023.95 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string human_rate(double per_second, const char* unit) {
  constexpr std::array prefixes = {"", "k", "M", "G", "T", "P", "E"};
  if (per_second <= 0) return {};
  std::size_t prefix = 0;
  while (per_second >= 999.5 && prefix + 1 < prefixes.size()) {
    per_second /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g} {}{}/s", per_second, prefixes[prefix], unit);
}

std::string human_number(double value) { return fmt::format("{:.4g}", value); }

std::string plural(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", human_count(count), noun, count == 1 ? "" : "s");
}

}  // namespace volta::cli
