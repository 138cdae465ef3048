// Functions on UTF-8 beyond volta/detail/utf8.h: hidden characters, texts that arrive in pieces,
// and bytes in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace volta::cli {

// Returns a JSON document in which hidden characters in strings are written as \u escapes. Line
// feeds and the like are outside of strings or already escaped.
std::string with_hidden_escaped(std::string_view json);

// The number of bytes at the end that begin a character which further bytes could complete.
std::size_t unfinished_bytes(std::string_view text);

// Converts every byte to the character with its number, so that JSON, which is UTF-8, can contain
// any bytes; and back, skipping characters beyond 255.
std::string bytes_as_characters(std::string_view bytes);
std::string characters_as_bytes(std::string_view text);

}  // namespace volta::cli
