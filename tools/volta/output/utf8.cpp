#include "utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "volta/detail/hidden_characters.h"

namespace volta::cli {

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return {};
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {bytes, code};
}

bool is_hidden(char32_t code) { return is_hidden_character(code); }

std::string with_hidden_escaped(std::string_view json) {
  std::string result;
  while (!json.empty()) {
    const Character character = first_character(json);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    if (character.code < 0x20 || !is_hidden(character.code)) {
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
  // The last three bytes at most: a lead, and fewer than all that follow it.
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
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string characters_as_bytes(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.bytes > 0 && character.code < 0x100) bytes += static_cast<char>(character.code);
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return bytes;
}

}  // namespace volta::cli
