// JSON from untrusted files, with bounded size and depth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "command.h"

namespace volta::cli {

// The depth is limited because the JSON library destroys and writes trees recursively.
inline constexpr std::size_t kMaxJsonDepth = 64;
// The JSON library keeps members in order and searches all of them for every new one.
inline constexpr std::size_t kMaxJsonMembers = 256;
inline constexpr std::uint64_t kMaxConfigBytes = 1 << 20;  // limit for a config.json

// Returns the content of a regular file. Throws IoError for any other file, without opening it, and
// for more than `max_bytes`.
std::string text_of_file(const std::string& path, std::uint64_t max_bytes);

// Returns nothing if the text is not valid JSON, nests too deeply or has too large objects. A
// `filter` works as in nlohmann::json's parser and decides what to keep; it is then responsible for
// the sizes of objects.
std::optional<Json> parse_json_text(std::string_view text,
                                    const Json::parser_callback_t& filter = nullptr);

// Reads a file of at most kMaxConfigBytes. Throws IoError naming the file and the position.
Json read_json_file(const std::string& path);

}  // namespace volta::cli
