// UTF-8 text as code points of the classes that tokenizers tell apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace volta::text {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

struct Character {
  char32_t point;      // 0xFFFFFFFF for a byte that is not valid UTF-8
  std::uint8_t bytes;  // it takes
  CharacterClass kind;
};

// The character that starts at `at`, which is within the text. Bytes that are not valid UTF-8 are
// characters of class `other`, one each.
Character character_at(std::string_view text, std::size_t at);

CharacterClass class_of(char32_t point);

}  // namespace volta::text
