// Edit distance of two words by dynamic programming.
#include "output/nearest.h"

#include <algorithm>

namespace volta::cli {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool begins_with(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table, one per prefix of a. The row before the last serves swapped neighbours.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  // Names of tensors may be very long, and the time is quadratic, so longer words are skipped.
  constexpr std::size_t kLongest = 200, kPrefix = 3;
  const std::string* best = nullptr;
  std::size_t least = 0;
  if (word.empty() || word.size() > kLongest) return std::nullopt;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongest) continue;
    const bool prefix = (word.size() >= kPrefix && begins_with(candidate, word)) ||
                        (candidate.size() >= kPrefix && begins_with(word, candidate));
    const std::size_t distance = prefix ? 1 : edit_distance(word, candidate);
    if (distance > std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3)) continue;
    if (best == nullptr || distance < least) {
      best = &candidate;
      least = distance;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> found = nearest(word, candidates);
  return found ? "; did you mean '" + *found + "'?" : "";
}

}  // namespace volta::cli
