// What the command does with UTF-8 beyond volta/detail/utf8.h: hidden characters, texts that come
// in pieces, bytes in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace volta::cli {

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
