// PNG through libpng's simplified interface, whose errors do not jump.
#include <png.h>

#include <fmt/format.h>

#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {
namespace {

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
  Reader reader(file, name);
  const std::int64_t height = reader.height(), width = reader.width();
  // A pixel takes at least a bit before it is compressed.
  const auto possible = static_cast<double>(8 * kMaxInflation) * static_cast<double>(file.size());
  const double pixels = static_cast<double>(height) * static_cast<double>(width);
  if (pixels > static_cast<double>(max_pixels) || pixels > possible) {
    throw IoError(fmt::format("{}: PNG of {} x {} pixels: too large", name, height, width));
  }
  const auto count = static_cast<std::size_t>(height * width);
  std::vector<std::uint8_t> rgba(count * 4);
  reader.read(rgba);
  RgbImage image{height, width, std::vector<std::uint8_t>(count * 3)};
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = rgba[4 * i + c];
  return image;
}

LibraryInfo png_library() { return {.name = "libpng", .version = png_get_libpng_ver(nullptr)}; }

}  // namespace volta::data
