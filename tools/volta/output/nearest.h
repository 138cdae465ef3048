// Finds the known name that a mistyped one may have meant.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volta::cli {

// Counts insertions, deletions, replacements and swaps of neighbours; ASCII case is ignored.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the nearest candidate if at most a third of its letters differ, or if one begins with the
// other.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// Returns "; did you mean 'size'?" to end a sentence with, or an empty string.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace volta::cli
