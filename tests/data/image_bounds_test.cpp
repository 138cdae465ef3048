// What pictures may ask for: pixels are counted before they are decoded, and notes are not
// unpacked.
#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/data_testing.h"
#include "peak_memory.h"
#include "volta/volta.h"

using volta::data_testing::bytes_of;

namespace volta {
namespace {

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(crc));
}

std::string deflated(const std::string& text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(text.data()), static_cast<uLong>(text.size()), 9);
  packed.resize(size);
  return packed;
}

// Black, of one bit a pixel, with other chunks before the pixels.
std::string png(std::uint32_t width, std::uint32_t height, const std::string& more = "") {
  const std::string rows(static_cast<std::size_t>((width + 7) / 8 + 1) * height, '\0');
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(width) + big_endian(height) + std::string("\1\0\0\0\0", 5)) +
         more + chunk("IDAT", deflated(rows)) + chunk("IEND", "");
}

std::string problem_with(const std::string& file, data::ImageOptions options = {}) {
  try {
    data::parse_image(bytes_of(file), "a.png", options);
  } catch (const IoError& error) {
    return error.what();
  }
  return "(accepted)";
}

bool has_png() { return problem_with(png(1, 1)) == "(accepted)"; }

TEST(ImageBounds, PixelsAreCountedBeforeTheyAreDecoded) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const std::string file = png(8192, 8192);  // 64 million pixels in a few kilobytes
  ASSERT_LT(file.size(), 20'000u);
  std::string problem;
  const std::uint64_t peak = peak_bytes([&] { problem = problem_with(file); });
  const auto allowed = (std::size_t{1} << 22) + 512 * file.size();
  EXPECT_EQ(problem, "a.png: PNG of 8192 x 8192 pixels: more than the " + std::to_string(allowed) +
                         " that a file of its size may have; {.max_pixels = ...} of ImageOptions "
                         "allows more");
  EXPECT_LT(peak, 8 * kMiB);
  // Who asks for more gets it, for 24 bytes a pixel at most.
  const std::string allowed_file = png(4096, 2048);
  const std::uint64_t pixels = 4096 * 2048;
  const std::uint64_t taken = peak_bytes(
      [&] { EXPECT_EQ(problem_with(allowed_file, {.max_pixels = 1 << 24}), "(accepted)"); });
  EXPECT_LT(taken, 24 * pixels + 8 * kMiB);
}

TEST(ImageBounds, ScalingDoesNotUnfoldAPictureOfOneColumn) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const std::string file = png(1, 1 << 19);
  const std::uint64_t peak = peak_bytes(
      [&] { EXPECT_EQ(problem_with(file, {.height = 256, .width = 4096}), "(accepted)"); });
  EXPECT_LT(peak, 96 * kMiB);  // rows first would take 24 GiB
}

TEST(ImageBounds, NotesAreNotUnpacked) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  // Each is a megabyte of zeros; 256 of them.
  const std::string note = std::string("k\0\0", 3) + deflated(std::string(1 << 20, '\0'));
  const std::string profile = std::string("icc\0\0", 5) + deflated(std::string(1 << 20, '\0'));
  const std::string international = std::string("k\0\1\0\0\0", 6) + note.substr(3);
  for (const auto& [type, data] :
       {std::pair{"zTXt", note}, {"iTXt", international}, {"iCCP", profile}, {"prVt", note}}) {
    std::string notes;
    for (int i = 0; i < 256; ++i) notes += chunk(type, data);
    const std::string file = png(8, 8, notes);
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t peak = peak_bytes([&] { EXPECT_EQ(problem_with(file), "(accepted)"); });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(peak, 8 * kMiB) << type;
    EXPECT_LT(took.count(), 1) << type;
  }
}

}  // namespace
}  // namespace volta
