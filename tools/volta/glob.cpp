// Globs through those of the library.
#include "glob.h"

#include <fmt/format.h>

#include <cstddef>

namespace volta::cli {
namespace {

// Whether [..] that begins at `at` is closed; else [ is itself.
bool is_set_at(std::string_view pattern, std::size_t at) {
  std::size_t close = at + 1;
  if (close < pattern.size() && (pattern[close] == '!' || pattern[close] == '^')) ++close;
  return pattern.find(']', close + 1) != std::string_view::npos;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  return NamePattern::glob(std::string(pattern)).matches(std::string(name));
}

bool is_glob(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*' || pattern[i] == '?') return true;
    if (pattern[i] == '[' && is_set_at(pattern, i)) return true;
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
