// GPT-2's splitting of text into pieces. Bytes are merged only within a piece.
#pragma once

#include <cstddef>
#include <string_view>

#include "volta/export.h"

namespace volta::text {

// Returns the end of the piece that starts at `at`, a position inside the text. GPT-2's pattern is
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
VOLTA_BACKEND_API std::size_t end_of_piece(std::string_view text, std::size_t at);

}  // namespace volta::text
