// PNG images of eight bits a channel.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta::io {

// Pixels row by row, channels together: 1 (grey), 3 (RGB) or 4 (RGBA). Sizes are at least 1.
VOLTA_BACKEND_API std::string encode_png(std::span<const std::uint8_t> pixels, std::uint32_t width,
                                         std::uint32_t height, int channels);

}  // namespace volta::io
