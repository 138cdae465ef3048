#include "output/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "volta/detail/hidden_characters.h"
#include "volta/detail/utf8.h"

namespace volta::cli {

std::string with_hidden_escaped(std::string_view json) {
  std::string result;
  while (!json.empty()) {
    const detail::Utf8Character character = detail::first_character(json);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    if (character.code < 0x20 || !is_hidden_character(character.code)) {
      result += json.substr(0, bytes);
    } else if (character.code < 0x10000) {
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
    } else {
      const auto rest = static_cast<std::uint32_t>(character.code) - 0x10000;
      result += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
    json.remove_prefix(bytes);
  }
  return result;
}

std::size_t unfinished_bytes(std::string_view text) {
  // An unfinished character has at most three bytes: a lead byte and fewer continuation bytes than
  // it needs.
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, text.size()); ++count) {
    const std::string_view end = text.substr(text.size() - count);
    const auto lead = static_cast<unsigned char>(end[0]);
    if ((lead & 0xc0) == 0x80) continue;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    const std::size_t needed = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (count >= needed) return 0;
    if (count > 1) {
      const auto second = static_cast<unsigned char>(end[1]);
      const bool wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                         (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
      if (wrong) return 0;
    }
    return count;
  }
  return 0;
}

std::string bytes_as_characters(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) detail::append_character(text, static_cast<unsigned char>(c));
  return text;
}

std::string characters_as_bytes(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const detail::Utf8Character character = detail::first_character(text);
    if (character.bytes > 0 && character.code < 0x100) bytes += static_cast<char>(character.code);
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return bytes;
}

}  // namespace volta::cli
