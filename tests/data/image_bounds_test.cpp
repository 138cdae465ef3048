// Limits of image files: pixels are counted before they are decoded, and text chunks are not
// unpacked.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/data_testing.h"
#include "support/peak_memory.h"
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

// A black image with one bit per pixel and with other chunks before the pixels.
std::string png(std::uint32_t width, std::uint32_t height, const std::string& more = "") {
  const std::string rows(static_cast<std::size_t>((width + 7) / 8 + 1) * height, '\0');
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(width) + big_endian(height) + std::string("\1\0\0\0\0", 5)) +
         more + chunk("IDAT", deflated(rows)) + chunk("IEND", "");
}

// A segment of a JPEG file: a marker, its length, its data.
std::string segment(unsigned char marker, const std::string& data) {
  const auto size = static_cast<std::uint32_t>(data.size() + 2);
  return std::string{'\xFF', static_cast<char>(marker)} + big_endian(size).substr(2) + data;
}

enum class Scans { baseline, progressive };

// A JPEG of one tone: all coefficients are 0, whose code is one bit. libjpeg keeps all coefficients
// of a progressive file; this one has a scan of the constant terms for each component and no other
// scan. `data_bytes` is the size of a scan.
std::string jpeg(std::uint32_t width, std::uint32_t height, int components, Scans scans,
                 std::size_t data_bytes, char sampling = '\x11') {
  std::string file = "\xFF\xD8" + segment(0xDB, std::string(1, '\0') + std::string(64, '\1'));
  std::string frame = "\x08";
  for (const std::uint32_t side : {height, width}) frame += big_endian(side).substr(2);
  frame += static_cast<char>(components);
  for (int i = 1; i <= components; ++i) frame += std::string{static_cast<char>(i), sampling, '\0'};
  const bool baseline = scans == Scans::baseline;
  file += segment(baseline ? 0xC0 : 0xC2, frame);
  const std::string one_code = "\1" + std::string(16, '\0');
  file += segment(0xC4, std::string(1, '\0') + one_code);
  if (baseline) file += segment(0xC4, "\x10" + one_code);
  const std::string data(data_bytes, '\0');
  if (baseline) {
    std::string scan(1, static_cast<char>(components));
    for (int i = 1; i <= components; ++i) scan += std::string{static_cast<char>(i), '\0'};
    file += segment(0xDA, scan + std::string("\0\x3F\0", 3)) + data;
  } else {
    for (int i = 1; i <= components; ++i)
      file += segment(0xDA, std::string{'\1', static_cast<char>(i), '\0', '\0', '\0', '\0'}) + data;
  }
  return file + "\xFF\xD9";
}

std::string problem_with(const std::string& file, data::ImageOptions options = {}) {
  const char* name = file.starts_with("\xFF\xD8") ? "a.jpg" : "a.png";
  try {
    data::parse_image(bytes_of(file), name, options);
  } catch (const IoError& error) {
    return error.what();
  }
  return "(accepted)";
}

bool has_png() { return problem_with(png(1, 1)) == "(accepted)"; }
bool has_jpeg() { return problem_with(jpeg(8, 8, 1, Scans::baseline, 1)) == "(accepted)"; }

TEST(ImageBounds, PixelsAreCountedBeforeTheyAreDecoded) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const std::string file = png(8192, 8192);  // of 64 million pixels in a few kilobytes
  ASSERT_LT(file.size(), 20'000u);
  std::string problem;
  const std::uint64_t peak = peak_bytes([&] { problem = problem_with(file); });
  const auto allowed = (std::size_t{1} << 22) + 512 * file.size();
  EXPECT_EQ(problem, "a.png: PNG of 8192 x 8192 pixels: more than the " + std::to_string(allowed) +
                         " that a file of its size may have; {.max_pixels = ...} of ImageOptions "
                         "allows more");
  EXPECT_LT(peak, 8 * kMiB);
  // A higher limit is accepted, for at most 24 bytes per pixel.
  const std::string allowed_file = png(4096, 2048);
  const std::uint64_t pixels = 4096 * 2048;
  const std::uint64_t taken = peak_bytes(
      [&] { EXPECT_EQ(problem_with(allowed_file, {.max_pixels = 1 << 24}), "(accepted)"); });
  EXPECT_LT(taken, 24 * pixels + 8 * kMiB);
}

TEST(ImageBounds, PixelsOfAJpegAreCountedBeforeTheyAreDecoded) {
  if (!has_jpeg()) GTEST_SKIP() << "built without libjpeg";
  for (const Scans scans : {Scans::baseline, Scans::progressive}) {
    for (const int components : {1, 3, 4}) {
      // The largest image that libjpeg accepts: 4 billion pixels in a few kilobytes.
      const std::string file = jpeg(65500, 65500, components, scans, 1000);
      ASSERT_LT(file.size(), 5'000u);
      std::string problem;
      const std::uint64_t peak = peak_bytes([&] { problem = problem_with(file); });
      const auto allowed = (std::size_t{1} << 22) + 512 * file.size();
      EXPECT_EQ(problem, "a.jpg: JPEG of 65500 x 65500 pixels: more than the " +
                             std::to_string(allowed) +
                             " that a file of its size may have; {.max_pixels = ...} of "
                             "ImageOptions allows more");
      EXPECT_LT(peak, 2 * kMiB);
    }
  }
}

TEST(ImageBounds, AJpegTakesTwentyFourBytesAPixel) {
  if (!has_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const std::uint64_t side = 2048, pixels = side * side, blocks = pixels / 64;
  double most = 0;
  for (const Scans scans : {Scans::baseline, Scans::progressive}) {
    for (const int components : {1, 3, 4}) {
      // One bit for the constant term of each block and, in a baseline file, one for the others.
      const std::uint64_t bits =
          scans == Scans::baseline ? 2 * blocks * static_cast<std::uint64_t>(components) : blocks;
      const std::string file = jpeg(side, side, components, scans, bits / 8);
      std::string problem;
      const std::uint64_t peak = peak_bytes([&] { problem = problem_with(file); });
      EXPECT_EQ(problem, "(accepted)") << components;
      EXPECT_LT(peak, 24 * pixels + 4 * kMiB) << components;
      most = std::max(most, static_cast<double>(peak) / static_cast<double>(pixels));
      // The header has the full size, but the data ends early.
      const std::string cut = jpeg(side, side, components, scans, 100);
      const std::uint64_t taken = peak_bytes([&] { problem = problem_with(cut); });
      EXPECT_LT(taken, 24 * pixels + 4 * kMiB) << problem;
    }
  }
  RecordProperty("bytes_per_pixel", std::to_string(most));
  // An image of one column whose rows are stored in blocks of 32 pixels.
  const std::string column = jpeg(1, 65500, 4, Scans::progressive, 1024, '\x44');
  const std::uint64_t peak = peak_bytes([&] { EXPECT_EQ(problem_with(column), "(accepted)"); });
  EXPECT_LT(peak, 24 * 65500 + 16 * kMiB);
  RecordProperty("column_bytes", std::to_string(peak));
}

TEST(ImageBounds, ScalingDoesNotUnfoldAPictureOfOneColumn) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const std::string file = png(1, 1 << 19);
  const std::uint64_t peak = peak_bytes(
      [&] { EXPECT_EQ(problem_with(file, {.height = 256, .width = 4096}), "(accepted)"); });
  EXPECT_LT(peak, 96 * kMiB);  // scaling rows first would take 24 GiB
}

TEST(ImageBounds, NotesAreNotUnpacked) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  // 256 chunks of a megabyte of zeros each.
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
