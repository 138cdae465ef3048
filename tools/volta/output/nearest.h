// Which known name a mistyped one may have meant.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volta::cli {

// Letters to insert, delete, replace or exchange with their neighbour; ASCII case does not count.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of the candidates, if it is near enough to be meant: a third of its letters differ at
// most, or one begins with the other.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// "; did you mean 'size'?", or nothing: the end of a sentence.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace volta::cli
