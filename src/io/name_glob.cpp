// Glob matching. Captures are found from the end: whether the rest of the pattern matches the rest
// of the name is computed once for each pair of positions.
#include "io/name_glob.h"

#include "volta/detail/glob_set.h"

namespace volta::io {
namespace {

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

NameGlob::NameGlob(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const auto close = c == '[' ? detail::end_of_glob_set(pattern, i) : std::nullopt;
    if (close) {
      elements_.push_back({Kind::set, c, std::string(pattern.substr(i + 1, *close - i - 1))});
      i = *close;
    } else {
      elements_.push_back({c == '*' ? Kind::any : c == '?' ? Kind::one : Kind::literal, c, {}});
    }
  }
}

bool NameGlob::takes(const Element& element, char c) {
  if (element.kind == Kind::set) return in_set(element.set, c);
  return element.kind == Kind::one || element.literal == c;
}

// Backtracks to the last star only.
bool NameGlob::matches(std::string_view name) const {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t p = 0, n = 0, star = kNone, resume = 0;
  while (n < name.size()) {
    if (p < elements_.size() && elements_[p].kind == Kind::any) {
      star = p++;
      resume = n;
    } else if (p < elements_.size() && takes(elements_[p], name[n])) {
      ++p;
      ++n;
    } else if (star == kNone) {
      return false;
    } else {
      p = star + 1;
      n = ++resume;
    }
  }
  while (p < elements_.size() && elements_[p].kind == Kind::any) ++p;
  return p == elements_.size();
}

std::optional<std::vector<std::string_view>> NameGlob::captures(std::string_view name) const {
  if (!matches(name)) return std::nullopt;
  const std::size_t places = name.size() + 1;
  // rest[p * places + n]: whether the elements from p on match the name from n on.
  std::vector<bool> rest((elements_.size() + 1) * places);
  rest.back() = true;
  for (std::size_t p = elements_.size(); p-- > 0;) {
    const bool any = elements_[p].kind == Kind::any;
    for (std::size_t n = places; n-- > 0;) {
      const bool here =
          n < name.size() && (any ? rest[p * places + n + 1]
                                  : takes(elements_[p], name[n]) && rest[(p + 1) * places + n + 1]);
      rest[p * places + n] = here || (any && rest[(p + 1) * places + n]);
    }
  }
  std::vector<std::string_view> found;
  std::size_t n = 0;
  for (std::size_t p = 0; p < elements_.size(); ++p) {
    std::size_t end = n + 1;
    if (elements_[p].kind == Kind::any)
      for (end = name.size(); !rest[(p + 1) * places + end];) --end;
    if (elements_[p].kind != Kind::literal) found.push_back(name.substr(n, end - n));
    n = end;
  }
  return found;
}

}  // namespace volta::io
