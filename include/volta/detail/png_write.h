// Writes PNG images with eight bits per channel for reports and event files. Not part of the API.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta::io {

// Pixels are in row order with interleaved channels: 1 (grey), 3 (RGB) or 4 (RGBA). Sizes are at
// least 1.
VOLTA_BACKEND_API std::string encode_png(std::span<const std::uint8_t> pixels, std::uint32_t width,
                                         std::uint32_t height, int channels);

}  // namespace volta::io
