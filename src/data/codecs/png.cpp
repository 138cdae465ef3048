// PNG through libpng's simplified interface, whose errors do not longjmp.
#include <png.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {
namespace {

// Returns whether pixels depend on a chunk of this type. Other chunks, mostly texts, are compressed
// as well and libpng would unpack all of them, so they are removed before libpng sees the file.
bool matters(std::string_view type) {
  constexpr std::string_view kPixels[] = {"PLTE", "IDAT", "IEND", "tRNS", "gAMA", "cHRM", "sRGB"};
  // libpng refuses critical chunks that it does not know.
  const bool critical = type[0] >= 'A' && type[0] <= 'Z';
  return critical || std::ranges::find(kPixels, type) != std::end(kPixels);
}

// Returns the file without chunks that do not matter. The rest of a damaged file is kept, so that
// libpng reports the damage. The first colour profile is kept if it is short.
std::vector<std::byte> without_notes(std::span<const std::byte> file) {
  constexpr std::size_t kSignature = 8, kFrame = 12, kMaxProfile = 1 << 20;
  std::vector<std::byte> kept;
  kept.reserve(file.size());
  std::size_t at = std::min(kSignature, file.size());
  const auto keep = [&](std::size_t from, std::size_t bytes) {
    const auto part = file.subspan(from, bytes);
    kept.insert(kept.end(), part.begin(), part.end());
  };
  keep(0, at);
  bool profile = false;
  while (file.size() - at >= kFrame) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length = length << 8 | std::to_integer<std::size_t>(file[at + i]);
    if (length > file.size() - at - kFrame) break;
    const std::string_view type(reinterpret_cast<const char*>(file.data() + at + 4), 4);
    const bool first_profile = type == "iCCP" && !profile && length <= kMaxProfile;
    profile = profile || first_profile;
    if (matters(type) || first_profile) keep(at, length + kFrame);
    at += length + kFrame;
  }
  keep(at, file.size() - at);
  return kept;
}

class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& name) : name_(name) {
    image_.version = PNG_IMAGE_VERSION;
    check(png_image_begin_read_from_memory(&image_, file.data(), file.size()));
  }
  ~Reader() { png_image_free(&image_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::int64_t height() const { return image_.height; }
  std::int64_t width() const { return image_.width; }
  void read(std::vector<std::uint8_t>& rgba) {
    image_.format = PNG_FORMAT_RGBA;
    check(png_image_finish_read(&image_, nullptr, rgba.data(), 0, nullptr));
  }

 private:
  void check(int succeeded) {
    if (succeeded != 0) return;
    const std::string message = image_.message;
    png_image_free(&image_);
    throw IoError(fmt::format("{}: PNG: {}", name_, message));
  }

  const std::string& name_;
  png_image image_{};
};

}  // namespace

RgbImage decode_png(std::span<const std::byte> file, const std::string& name,
                    std::int64_t max_pixels) {
  const std::vector<std::byte> kept = without_notes(file);
  Reader reader(kept, name);
  const std::int64_t height = reader.height(), width = reader.width();
  // A pixel takes at least one bit before compression.
  const auto possible = static_cast<double>(8 * kMaxInflation) * static_cast<double>(file.size());
  const double pixels = static_cast<double>(height) * static_cast<double>(width);
  if (pixels > static_cast<double>(max_pixels) || pixels > possible) {
    throw IoError(too_many_pixels(name, "PNG", height, width, max_pixels));
  }
  const auto count = static_cast<std::size_t>(height * width);
  RgbImage image{height, width, std::vector<std::uint8_t>(count * 4)};
  reader.read(image.pixels);
  // Removes the fourth byte of each pixel in place.
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = image.pixels[4 * i + c];
  image.pixels.resize(count * 3);
  return image;
}

LibraryInfo png_library() { return {.name = "libpng", .version = png_get_libpng_ver(nullptr)}; }

}  // namespace volta::data
