// UTF-8 text as code points with the classes that tokenizers distinguish.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace volta::text {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

struct Character {
  char32_t point;      // 0xFFFFFFFF for a byte that is not valid UTF-8
  std::uint8_t bytes;  // length in the text
  CharacterClass kind;
};

// Returns the character that starts at `at`, a position inside the text. Every byte that is not
// valid UTF-8 is a character of class `other`.
Character character_at(std::string_view text, std::size_t at);

CharacterClass class_of(char32_t point);

}  // namespace volta::text
