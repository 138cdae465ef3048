// Matching by going back to the last star only.
#include "glob.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

namespace volta::cli {
namespace {

// One element of a pattern: where it ends, and what it matches.
struct Element {
  std::size_t end;
  std::string_view set;  // the inside of [..]; empty: one character, or any
};

// [..] beginning at `at`; nothing where it is not closed: then [ is itself.
std::optional<Element> set_at(std::string_view pattern, std::size_t at) {
  std::size_t close = at + 1;
  if (close < pattern.size() && (pattern[close] == '!' || pattern[close] == '^')) ++close;
  close = pattern.find(']', close + 1);
  if (close == std::string_view::npos) return std::nullopt;
  return Element{close + 1, pattern.substr(at + 1, close - at - 1)};
}

bool in_set(std::string_view set, char c) {
  const bool negated = set[0] == '!' || set[0] == '^';
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != negated;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
      continue;
    }
    if (p < pattern.size()) {
      const auto set = pattern[p] == '[' ? set_at(pattern, p) : std::nullopt;
      const bool matches =
          set ? in_set(set->set, name[n]) : pattern[p] == '?' || pattern[p] == name[n];
      if (matches) {
        p = set ? set->end : p + 1;
        ++n;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    p = star + 1;
    n = ++resume;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool is_glob(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*' || pattern[i] == '?') return true;
    if (pattern[i] == '[' && set_at(pattern, i)) return true;
  }
  return false;
}

NamePattern glob_pattern(const std::string& pattern) {
  if (!is_glob(pattern)) return {pattern};
  std::string expression = "^";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const auto set = c == '[' ? set_at(pattern, i) : std::nullopt;
    if (c == '*') {
      expression += "([^]*)";  // line breaks too
    } else if (c == '?') {
      expression += "([^])";
    } else if (set) {
      std::string inside(set->set);
      if (inside[0] == '!') inside[0] = '^';
      std::string escaped;
      for (const char one : inside)
        escaped += one == '\\' || one == '[' ? fmt::format("\\{}", one) : std::string(1, one);
      expression += fmt::format("([{}])", escaped);
      i = set->end - 1;
    } else {
      if (std::string_view(R"(\^$.|()[]{}+/)").find(c) != std::string_view::npos)
        expression += '\\';
      expression += c;
    }
  }
  return NamePattern::regex(expression + "$");
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
