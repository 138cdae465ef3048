// Decoding UTF-8 and finding code points in the tables of classes.
#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace volta::text {
namespace {

struct CodePointRange {
  char32_t first, last;
};

#include "text/unicode_tables.inc"

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
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, class_of(lead)};
  constexpr Character broken{kInvalid, 1, CharacterClass::other};
  const unsigned length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return broken;
  char32_t point = lead & (0x7Fu >> length);
  for (unsigned i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return broken;
    point = point << 6 | (byte(i) & 0x3F);
  }
  // Shorter forms exist, halves of a pair, or beyond the last code point.
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  if (overlong || (point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) return broken;
  return {point, static_cast<std::uint8_t>(length), class_of(point)};
}

}  // namespace volta::text
