// Writes PNG: chunks with CRCs around the deflated rows.
#include "volta/detail/png_write.h"

#include <vector>

#include <zlib.h>

#include "volta/error.h"

namespace volta::io {
namespace {

void put(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void put_chunk(std::string& out, const std::string& kind, const std::string& data) {
  put(out, static_cast<std::uint32_t>(data.size()));
  const std::string body = kind + data;
  out += body;
  put(out, static_cast<std::uint32_t>(
               crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size())));
}

std::string deflated(const std::string& raw) {
  uLongf size = compressBound(raw.size());
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 6) != Z_OK)
    throw IoError("encode_png: zlib: no memory to compress");
  packed.resize(size);
  return packed;
}

}  // namespace

std::string encode_png(std::span<const std::uint8_t> pixels, std::uint32_t width,
                       std::uint32_t height, int channels) {
  const std::size_t row = std::size_t{width} * static_cast<std::size_t>(channels);
  std::string raw;
  raw.reserve((row + 1) * height);
  for (std::uint32_t y = 0; y < height; ++y) {
    raw.push_back(0);  // no filter
    raw.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  std::string header;
  put(header, width);
  put(header, height);
  const char colors[] = {0, 0, 0, 2, 6};
  header += {8, colors[channels], 0, 0, 0};

  std::string png = "\x89PNG\r\n\x1a\n";
  put_chunk(png, "IHDR", header);
  // A chunk holds less than 2^31 bytes. The image data may be split anywhere.
  const std::string data = deflated(raw);
  constexpr std::size_t kMost = std::size_t{1} << 30;
  for (std::size_t at = 0; at < data.size(); at += kMost)
    put_chunk(png, "IDAT", data.substr(at, kMost));
  put_chunk(png, "IEND", "");
  return png;
}

}  // namespace volta::io
