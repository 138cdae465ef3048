// Sizes and source locations as text for messages.
#include "core/text.h"

#include <string_view>

#include <fmt/format.h>

#include "encoding/unicode.h"
#include "volta/detail/hidden_characters.h"

namespace volta {

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
  const auto value = static_cast<double>(bytes);
  if (bytes >= kGiB) return fmt::format("{:.2f} GiB", value / kGiB);
  if (bytes >= kMiB) return fmt::format("{:.2f} MiB", value / kMiB);
  if (bytes >= kKiB) return fmt::format("{:.2f} KiB", value / kKiB);
  return fmt::format("{} B", bytes);
}

std::string place_text(const SourceLocation& place) {
  const std::string_view path = place.file();
  return fmt::format("{}:{}", path.substr(path.find_last_of("/\\") + 1), place.line());
}

std::string shown_text(std::string_view message) {
  constexpr char32_t kNoCharacter = 0xffffffff;
  std::string shown;
  while (!message.empty()) {
    const text::Character character = text::character_at(message, 0);
    const bool plain = character.point == U'\n' || character.point == U'\t' ||
                       (character.point != kNoCharacter && !is_hidden_character(character.point));
    for (const char byte : message.substr(0, character.bytes)) {
      if (plain) {
        shown += byte;
      } else {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    message.remove_prefix(character.bytes);
  }
  return shown;
}

}  // namespace volta
