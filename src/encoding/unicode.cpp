// Looks up code points in the tables of character classes.
#include "encoding/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "volta/detail/utf8.h"

namespace volta::text {
namespace {

struct CodePointRange {
  char32_t first, last;
};

#include "encoding/unicode_tables.inc"

constexpr char32_t kInvalid = 0xFFFFFFFF;

bool contains(std::span<const CodePointRange> ranges, char32_t point) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), point,
      [](char32_t wanted, const CodePointRange& range) { return wanted < range.first; });
  return after != ranges.begin() && point <= std::prev(after)->last;
}

CharacterClass find_class(char32_t point) {
  if (contains(kLetters, point)) return CharacterClass::letter;
  if (contains(kNumbers, point)) return CharacterClass::number;
  if (contains(kWhiteSpace, point)) return CharacterClass::space;
  return CharacterClass::other;
}

std::array<CharacterClass, 128> ascii_classes() {
  std::array<CharacterClass, 128> classes;
  for (char32_t point = 0; point < 128; ++point) classes[point] = find_class(point);
  return classes;
}

}  // namespace

CharacterClass class_of(char32_t point) {
  static const std::array<CharacterClass, 128> ascii = ascii_classes();
  return point < 128 ? ascii[point] : find_class(point);
}

Character character_at(std::string_view text, std::size_t at) {
  const auto [bytes, code] = detail::first_character(text.substr(at));
  if (bytes == 0) return {kInvalid, 1, CharacterClass::other};
  return {code, static_cast<std::uint8_t>(bytes), class_of(code)};
}

}  // namespace volta::text
