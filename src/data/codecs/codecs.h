// Compressed formats, by zlib, libpng and libjpeg where the build found them; where it did not, a
// call throws IoError saying so. Input may be anything: sizes are checked before memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "volta/system_info.h"

namespace volta::data {

// More than deflate can make of a byte: a file that promises more is refused before any of it is
// decompressed.
inline constexpr std::uint64_t kMaxInflation = 1032;
// What a gzip file may unpack to: so many times its size, and this much besides. MNIST's files grow
// by a factor of five.
inline constexpr std::uint64_t kUsualInflation = 32, kFreeInflation = std::uint64_t{64} << 20;

// The content of a gzip file. `wanted` is asked, with the first bytes of the content (at least
// `head_bytes` of them, or all), how many bytes there must be; others are an error.
std::vector<std::byte> gunzip(
    std::span<const std::byte> file, const std::string& name, std::size_t head_bytes,
    const std::function<std::uint64_t(std::span<const std::byte>)>& wanted);

// Rows of RGB pixels, 3 bytes each.
struct RgbImage {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// What is said of a picture that exceeds the limit.
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

// The library that each is read with.
LibraryInfo gzip_library();
LibraryInfo png_library();
LibraryInfo jpeg_library();

}  // namespace volta::data
