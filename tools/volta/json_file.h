// JSON from files: of a bounded size and depth, whatever somebody wrote there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "command.h"

namespace volta::cli {

// The library's trees are destroyed and written recursively.
inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::uint64_t kMaxConfigBytes = 1 << 20;  // of a config.json

// The content of a regular file; IoError for anything else, before it is opened, and for more than
// `max_bytes`.
std::string text_of_file(const std::string& path, std::uint64_t max_bytes);

// Nothing where the text is no JSON, or nests deeper. A `filter` is called as nlohmann::json's
// parsers do, and says what to keep.
std::optional<Json> parse_json_text(std::string_view text,
                                    const Json::parser_callback_t& filter = nullptr);

// Of a file of at most kMaxConfigBytes. Throws IoError, naming the file and where it goes wrong.
Json read_json_file(const std::string& path);

}  // namespace volta::cli
