// Patterns of names as a shell writes them: * is any text, ? one character, [ab] one of some.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "volta/io/state_dict_mapper.h"

namespace volta::cli {

// The whole name matches. Takes time in proportion to the product of the two lengths.
bool glob_matches(std::string_view pattern, std::string_view name);

// The same as a pattern of StateDictMapper, in which every *, ? and [..] is a group.
NamePattern glob_pattern(const std::string& pattern);
bool is_glob(std::string_view pattern);

// What a renaming by pattern makes of a name: the n-th * of `to` is what the n-th wildcard matched.
std::string glob_replacement(std::string_view to);

}  // namespace volta::cli
