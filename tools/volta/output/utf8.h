// Characters of UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace volta::cli {

// A character of UTF-8; 0 bytes where the text does not begin with one.
struct Character {
  std::size_t bytes = 0;
  char32_t code = 0;
};
Character first_character(std::string_view text);

// Control characters, and those that change the direction of text or cannot be seen.
bool is_hidden(char32_t code);

// A JSON document, in whose strings characters that are hidden are written as \u and a number. Line
// feeds and the like are outside of strings, or written so already.
std::string with_hidden_escaped(std::string_view json);

// How many bytes at the end begin a character that more bytes could complete.
std::size_t unfinished_bytes(std::string_view text);

// Every byte as the character of its number, and back: how JSON, which is UTF-8, has any bytes. The
// way back skips characters beyond 255.
std::string bytes_as_characters(std::string_view bytes);
std::string characters_as_bytes(std::string_view text);

}  // namespace volta::cli
