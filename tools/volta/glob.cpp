// Globs, implemented by those of the library.
#include "glob.h"

#include <fmt/format.h>

#include <cstddef>

#include "volta/detail/glob_set.h"

namespace volta::cli {

bool glob_matches(std::string_view pattern, std::string_view name) {
  return NamePattern::glob(std::string(pattern)).matches(std::string(name));
}

bool is_glob(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*' || pattern[i] == '?') return true;
    if (pattern[i] == '[' && detail::end_of_glob_set(pattern, i)) return true;
  }
  return false;
}

NamePattern glob_pattern(const std::string& pattern) {
  return is_glob(pattern) ? NamePattern::glob(pattern) : NamePattern(pattern);
}

std::string glob_replacement(std::string_view to) {
  std::string replacement;
  int group = 0;
  for (const char c : to) {
    if (c == '*') {
      replacement += fmt::format("${:02}", ++group);
    } else if (c == '$') {
      replacement += "$$";
    } else {
      replacement += c;
    }
  }
  return replacement;
}

}  // namespace volta::cli
