// Shell patterns for names: * matches any text, ? one character, [ab] one character of a set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "volta/io/state_dict_mapper.h"

namespace volta::cli {

// Returns whether the whole name matches, in time proportional to the product of the two lengths.
bool glob_matches(std::string_view pattern, std::string_view name);

// Returns the glob as a pattern of StateDictMapper in which every *, ? and [..] is a group.
NamePattern glob_pattern(const std::string& pattern);
bool is_glob(std::string_view pattern);

// Converts the replacement of a rename: its n-th * stands for the text of the n-th wildcard.
std::string glob_replacement(std::string_view to);

}  // namespace volta::cli
