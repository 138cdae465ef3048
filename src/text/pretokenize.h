// GPT-2's cutting of text into pieces within which bytes are joined.
#pragma once

#include <cstddef>
#include <string_view>

#include "volta/export.h"

namespace volta::text {

// The end of the piece that starts at `at`, which is within the text: what GPT-2's pattern matches,
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
VOLTA_BACKEND_API std::size_t end_of_piece(std::string_view text, std::size_t at);

}  // namespace volta::text
