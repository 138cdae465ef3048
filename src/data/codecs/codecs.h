// Decoders of compressed formats through zlib, libpng and libjpeg. If the build lacks a library,
// its functions throw IoError saying so. Input is untrusted: sizes are checked before memory is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "volta/system_info.h"

namespace volta::data {

// Deflate cannot expand data by more than this factor. A file that promises more is refused before
// it is decompressed.
inline constexpr std::uint64_t kMaxInflation = 1032;
// A gzip file may unpack to kUsualInflation times its size plus kFreeInflation bytes. MNIST's files
// grow by a factor of five.
inline constexpr std::uint64_t kUsualInflation = 32, kFreeInflation = std::uint64_t{64} << 20;

// Returns the content of a gzip file. `wanted` gets the first bytes of the content (at least
// `head_bytes`, or all of it) and returns the expected size; any other size is an error.
std::vector<std::byte> gunzip(
    std::span<const std::byte> file, const std::string& name, std::size_t head_bytes,
    const std::function<std::uint64_t(std::span<const std::byte>)>& wanted);

// Rows of RGB pixels of 3 bytes each.
struct RgbImage {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// The message for an image that exceeds the limit.
inline std::string too_many_pixels(const std::string& name, const char* format, std::int64_t height,
                                   std::int64_t width, std::int64_t limit) {
  return name + ": " + format + " of " + std::to_string(height) + " x " + std::to_string(width) +
         " pixels: more than the " + std::to_string(limit) +
         " that a file of its size may have; {.max_pixels = ...} of ImageOptions allows more";
}

// `max_pixels` bounds height times width. Transparency is dropped.
RgbImage decode_png(std::span<const std::byte> file, const std::string& name,
                    std::int64_t max_pixels);
RgbImage decode_jpeg(std::span<const std::byte> file, const std::string& name,
                     std::int64_t max_pixels);

// The libraries that read the formats.
LibraryInfo gzip_library();
LibraryInfo png_library();
LibraryInfo jpeg_library();

}  // namespace volta::data
