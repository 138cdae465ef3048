// Invisible and control characters. Names in untrusted files may use them to imitate other names or
// to control the terminal. The library and the volta command share this table.
#pragma once

namespace volta {

struct CharacterRange {
  char32_t first, last;
};
inline constexpr CharacterRange kHiddenCharacters[] = {
    {0x00, 0x1f},        // control characters of ASCII
    {0x7f, 0x9f},        // delete, and the control characters of ISO 8859
    {0xad, 0xad},        // soft hyphen
    {0x34f, 0x34f},      // joins letters, invisibly
    {0x61c, 0x61c},      // direction of Arabic
    {0x115f, 0x1160},    // fillers of Hangul
    {0x17b4, 0x17b5},    // inherent vowels of Khmer
    {0x180b, 0x180f},    // variants and vowel separator of Mongolian
    {0x200b, 0x200f},    // spaces without width, joiners, directions
    {0x2028, 0x202e},    // separators of lines and paragraphs; embedded and overridden directions
    {0x2060, 0x206f},    // word joiner, invisible operators, isolated directions
    {0x3164, 0x3164},    // filler of Hangul
    {0xfe00, 0xfe0f},    // variants
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // filler of Hangul, half as wide
    {0xfff9, 0xfffb},    // annotations
    {0x1bca0, 0x1bca3},  // controls of shorthand
    {0x1d173, 0x1d17a},  // controls of music
    {0xe0000, 0xe0fff},  // tags and more variants
};

constexpr bool is_hidden_character(char32_t code) {
  for (const CharacterRange& range : kHiddenCharacters) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

}  // namespace volta
