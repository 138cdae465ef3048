// Sets of characters in globs: [ab], [a-z], [!ab]. The library and the volta command share this.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace volta::detail {

// Returns the position of the ] that closes the set beginning at `at`, or nothing if the set is not
// closed; then [ stands for itself. A ] at the beginning of a set is one of its characters.
constexpr std::optional<std::size_t> end_of_glob_set(std::string_view pattern, std::size_t at) {
  std::size_t first = at + 1;
  if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
  const std::size_t close = pattern.find(']', first + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return close;
}

}  // namespace volta::detail
