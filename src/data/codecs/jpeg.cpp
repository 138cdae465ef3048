// JPEG through libjpeg, whose errors longjmp. Functions that libjpeg jumps out of hold no objects
// with destructors.
#include <cstdio>  // jpeglib.h needs it first

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>
#include <limits>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "data/codecs/codecs.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::data {
namespace {

// A progressive file may ask for any number of passes over the image.
constexpr int kMaxScans = 200;

struct Decoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX];
  bool warned;     // `message` is the first warning
  bool rows_read;  // all rows have been read
  bool truncated;  // the file ended before the last row
};

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

void note(j_common_ptr info) { (*info->err->format_message)(info, decoder_of(info).message); }

[[noreturn]] void fail(j_common_ptr info) {
  note(info);
  std::longjmp(decoder_of(info).failed, 1);
}

// Level -1 reports damaged data; libjpeg continues after it.
void emit(j_common_ptr info, int level) {
  Decoder& decoder = decoder_of(info);
  if (level >= 0) return;
  const bool ended = info->err->msg_code == JWRN_JPEG_EOF && !decoder.rows_read;
  if (ended || !decoder.warned) note(info);
  decoder.warned = true;
  decoder.truncated |= ended;
}

void watch(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= kMaxScans) return;
  std::snprintf(decoder_of(info).message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
  std::longjmp(decoder_of(info).failed, 1);
}

bool read_header(Decoder& decoder, std::span<const std::byte> file) {
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  decoder.progress.progress_monitor = watch;
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

// Converts CMYK to RGB. Adobe's programs store the inks inverted, so 255 means no ink: each colour
// is the product of its ink and black.
void inks_to_rgb(const std::uint8_t* inks, std::size_t width, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < width; ++i) {
    const unsigned light = inks[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] =
          static_cast<std::uint8_t>(light - ((255u - inks[4 * i + c]) * light + 127u) / 255u);
  }
}

// `inks` has room for one row of 4-byte pixels if the image is CMYK; otherwise it is null.
bool read_pixels(Decoder& decoder, std::uint8_t* pixels, std::uint8_t* inks) {
  if (setjmp(decoder.failed) != 0) return false;
  decoder.info.out_color_space = inks != nullptr ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&decoder.info);
  const std::size_t width = decoder.info.output_width;
  while (decoder.info.output_scanline < decoder.info.output_height) {
    std::uint8_t* rgb = pixels + decoder.info.output_scanline * width * 3;
    JSAMPROW row = inks != nullptr ? inks : rgb;
    jpeg_read_scanlines(&decoder.info, &row, 1);
    if (inks != nullptr) inks_to_rgb(inks, width, rgb);
  }
  decoder.rows_read = true;
  jpeg_finish_decompress(&decoder.info);
  return true;
}

// Warns once per file, because every epoch reads the file again.
void tell_damage(const std::string& name, const char* message) {
  static std::mutex lock;
  static std::set<std::string> told;
  {
    const std::lock_guard guard(lock);
    if (!told.insert(name).second) return;
  }
  log(LogLevel::warning,
      fmt::format("{}: JPEG: {}; it was read as far as possible", name, message));
}

// Frees libjpeg's memory at the end of the scope.
class Guard {
 public:
  explicit Guard(Decoder& decoder) : decoder_(decoder) {}
  ~Guard() { jpeg_destroy_decompress(&decoder_.info); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Decoder& decoder_;
};

}  // namespace

RgbImage decode_jpeg(std::span<const std::byte> file, const std::string& name,
                     std::int64_t max_pixels) {
  Decoder decoder{};
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = fail;
  decoder.errors.emit_message = emit;
  decoder.info.client_data = &decoder;
  const Guard guard(decoder);
  const auto refuse = [&] { throw IoError(fmt::format("{}: JPEG: {}", name, decoder.message)); };
  if (file.size() > std::numeric_limits<unsigned long>::max() || !read_header(decoder, file))
    refuse();
  const std::int64_t height = decoder.info.image_height, width = decoder.info.image_width;
  if (height * width > max_pixels)
    throw IoError(too_many_pixels(name, "JPEG", height, width, max_pixels));
  const int components = decoder.info.num_components;
  if (components != 1 && components != 3 && components != 4) {
    throw IoError(
        fmt::format("{}: JPEG of {} components: neither grey nor colour", name, components));
  }
  RgbImage image{height, width,
                 std::vector<std::uint8_t>(static_cast<std::size_t>(height * width) * 3)};
  std::vector<std::uint8_t> inks(components == 4 ? static_cast<std::size_t>(width) * 4 : 0);
  if (!read_pixels(decoder, image.pixels.data(), components == 4 ? inks.data() : nullptr) ||
      decoder.truncated)
    refuse();
  if (decoder.warned) tell_damage(name, decoder.message);
  return image;
}

LibraryInfo jpeg_library() {
#ifdef LIBJPEG_TURBO_VERSION
#define VOLTA_QUOTED(text) #text
#define VOLTA_TEXT(macro) VOLTA_QUOTED(macro)
  return {.name = "libjpeg-turbo", .version = VOLTA_TEXT(LIBJPEG_TURBO_VERSION)};
#else
  return {.name = "libjpeg",
          .version = fmt::format("{}.{}", JPEG_LIB_VERSION / 10, JPEG_LIB_VERSION % 10)};
#endif
}

}  // namespace volta::data
