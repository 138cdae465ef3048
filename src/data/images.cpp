// Images as tensors: decoded, scaled, channels first.
#include "volta/data/images.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/codecs/codecs.h"
#include "data/host_tensor.h"
#include "platform/files.h"
#include "volta/creation.h"
#include "volta/error.h"

namespace volta::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxSide = 1 << 16;

void check(const ImageOptions& options) {
  const auto require = [](bool good, const char* why) {
    if (!good) throw ArgumentError(fmt::format("images: {}", why));
  };
  require(options.channels == 1 || options.channels == 3, "channels must be 1 or 3");
  require((options.height == 0) == (options.width == 0), "height and width go together");
  require(options.height >= 0 && options.width >= 0 && options.height <= kMaxSide &&
              options.width <= kMaxSide,
          "height and width must be 0 to 65536");
  require(options.max_pixels >= 0 && options.max_pixels <= (std::int64_t{1} << 32),
          "max_pixels must be 0 to 2^32");
}

// A few bytes can encode millions of pixels, so the default limit grows with the size of the file.
std::int64_t pixel_limit(const ImageOptions& options, std::size_t file_bytes) {
  constexpr std::uint64_t kFree = 1 << 22, kOfAByte = 512, kMost = 1 << 26;
  if (options.max_pixels != 0) return options.max_pixels;
  return static_cast<std::int64_t>(
      std::min(kMost, kFree + kOfAByte * std::min<std::uint64_t>(file_bytes, kMost)));
}

RgbImage decoded(std::span<const std::byte> file, const std::string& name,
                 std::int64_t max_pixels) {
  const auto begins = [&](std::initializer_list<int> bytes) {
    return file.size() >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), file.begin(),
                      [](int wanted, std::byte byte) { return wanted == static_cast<int>(byte); });
  };
  if (begins({0x89, 'P', 'N', 'G'})) return decode_png(file, name, max_pixels);
  if (begins({0xFF, 0xD8})) return decode_jpeg(file, name, max_pixels);
  throw IoError(name + ": neither a PNG nor a JPEG file");
}

// Writes one channel of `count` pixels as numbers from 0 to 1; grey has the weights of ITU-R 601.
void channel_of(const std::uint8_t* rgb, std::size_t count, std::int64_t channels,
                std::int64_t channel, float* to) {
  for (std::size_t i = 0; i < count; ++i, rgb += 3) {
    const unsigned grey = (19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16;
    to[i] = static_cast<float>(channels == 1 ? grey : rgb[channel]) / 255.0f;
  }
}

// Writes the channels one after the other, without scaling.
void planes(const RgbImage& image, std::int64_t channels, float* to) {
  const auto count = static_cast<std::size_t>(image.height * image.width);
  for (std::int64_t c = 0; c < channels; ++c)
    channel_of(image.pixels.data(), count, channels, c, to + static_cast<std::size_t>(c) * count);
}

// The inputs of one output pixel and their weights. The filter is a triangle as wide as two pixels
// of the coarser side.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - reach)),
               end = std::min(from, static_cast<std::int64_t>(centre + reach) + 1);
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = begin;
    double sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const double distance = std::abs(static_cast<double>(k) + 0.5 - centre);
      const double weight = std::max(0.0, 1 - distance / reach);
      taps.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
  }
  return all;
}

// Scales the rows of the image to `to` pixels: [channels, height, to]. Only one row of the image at
// a time is held in floats.
std::vector<float> scaled_rows(const RgbImage& image, std::int64_t channels, std::int64_t to) {
  const std::vector<Taps> taps = taps_of(image.width, to);
  std::vector<float> result(static_cast<std::size_t>(channels * image.height * to));
  std::vector<float> row(static_cast<std::size_t>(image.width));
  float* out = result.data();
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      channel_of(image.pixels.data() + 3 * y * image.width, row.size(), channels, c, row.data());
      if (image.width == to) {
        out = std::copy(row.begin(), row.end(), out);
        continue;
      }
      for (const Taps& tap : taps) {
        float sum = 0;
        for (std::size_t k = 0; k < tap.weights.size(); ++k)
          sum += tap.weights[k] * row[static_cast<std::size_t>(tap.first) + k];
        *out++ = sum;
      }
    }
  }
  return result;
}

// Scales the middle axis of [count, from, inner] to `to` elements; inner is 1 for rows.
std::vector<float> scaled_axis(const std::vector<float>& values, std::int64_t count,
                               std::int64_t from, std::int64_t to, std::int64_t inner) {
  if (from == to) return values;
  const std::vector<Taps> taps = taps_of(from, to);
  std::vector<float> result(static_cast<std::size_t>(count * to * inner));
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t i = 0; i < to; ++i) {
      const Taps& tap = taps[static_cast<std::size_t>(i)];
      float* out = result.data() + (n * to + i) * inner;
      for (std::size_t k = 0; k < tap.weights.size(); ++k) {
        const float* in =
            values.data() + (n * from + tap.first + static_cast<std::int64_t>(k)) * inner;
        for (std::int64_t j = 0; j < inner; ++j) out[j] += tap.weights[k] * in[j];
      }
    }
  }
  return result;
}

bool is_picture(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix == ".png" || suffix == ".jpg" || suffix == ".jpeg";
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    entries.push_back(entry->path());
  if (error) throw IoError(fmt::format("{}: cannot list: {}", folder.string(), error.message()));
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Lists the folder and all folders below it, following links. `above` holds the folders around this
// one, so that a link to one of them ends the recursion.
void add_folders(const fs::path& folder, std::vector<fs::path>& above,
                 std::vector<std::string>& found) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) throw IoError(fmt::format("{}: cannot list: {}", folder.string(), error.message()));
  if (std::find(above.begin(), above.end(), real) != above.end()) return;
  above.push_back(real);
  found.push_back(folder.string());
  for (const fs::path& entry : sorted_entries(folder))
    if (fs::is_directory(entry, error)) add_folders(entry, above, found);
  above.pop_back();
}

// The order is torchvision's: by the folder's path as text, then by name.
std::vector<std::string> pictures_below(const fs::path& folder) {
  std::vector<fs::path> above;
  std::vector<std::string> folders, pictures;
  add_folders(folder, above, folders);
  std::sort(folders.begin(), folders.end());
  std::error_code ignored;
  for (const std::string& each : folders) {
    for (const fs::path& file : sorted_entries(each))
      if (is_picture(file) && fs::is_regular_file(file, ignored)) pictures.push_back(file.string());
  }
  return pictures;
}

}  // namespace

Tensor parse_image(std::span<const std::byte> file, const std::string& name, ImageOptions options) {
  check(options);
  const RgbImage image = decoded(file, name, pixel_limit(options, file.size()));
  const std::int64_t height = options.height != 0 ? options.height : image.height,
                     width = options.width != 0 ? options.width : image.width;
  const std::int64_t channels = options.channels;
  const HostTensor result = host_tensor({channels, height, width}, DType::f32);
  auto* const out = reinterpret_cast<float*>(result.memory);
  if (height == image.height && width == image.width) {
    planes(image, channels, out);
    return result.tensor;
  }
  std::vector<float> values;
  // Rows are scaled first, unless the intermediate image would be much larger than both images, as
  // for an image with one column.
  if (image.height * width <= 4 * (image.height * image.width + height * width)) {
    values = scaled_rows(image, channels, width);
    values = scaled_axis(values, channels, image.height, height, width);
  } else {
    values.resize(static_cast<std::size_t>(channels * image.height * image.width));
    planes(image, channels, values.data());
    values = scaled_axis(values, channels, image.height, height, image.width);
    values = scaled_axis(values, channels * height, image.width, width, 1);
  }
  std::copy(values.begin(), values.end(), out);
  return result.tensor;
}

Tensor read_image(const std::string& path, ImageOptions options) {
  const std::string file = platform::read_file(path);
  return parse_image(std::as_bytes(std::span(file)), path, options);
}

struct ImageFolder::Storage {
  struct File {
    std::string path;
    std::int64_t label;
  };
  ImageOptions options;
  std::vector<std::string> classes;
  std::vector<File> files;
};

ImageFolder::ImageFolder(const std::string& folder, ImageOptions options,
                         ImageFolderOptions folder_options) {
  check(options);
  auto storage = std::make_shared<Storage>();
  storage->options = options;
  std::vector<std::string> empty;
  std::error_code ignored;
  for (const fs::path& entry : sorted_entries(folder)) {
    if (!fs::is_directory(entry, ignored)) continue;
    const auto label = static_cast<std::int64_t>(storage->classes.size());
    storage->classes.push_back(entry.filename().string());
    std::vector<std::string> pictures = pictures_below(entry);
    if (pictures.empty()) empty.push_back("'" + storage->classes.back() + "'");
    for (std::string& picture : pictures) storage->files.push_back({std::move(picture), label});
  }
  if (storage->files.empty())
    throw IoError(folder + ": no subfolder has a .png, .jpg or .jpeg file");
  if (!empty.empty() && !folder_options.allow_empty) {
    throw IoError(
        fmt::format("{}: no .png, .jpg or .jpeg file for the classes {}; {{.allow_empty = "
                    "true}} allows that",
                    folder, fmt::join(empty, ", ")));
  }
  storage_ = std::move(storage);
}

std::int64_t ImageFolder::size() const { return static_cast<std::int64_t>(storage_->files.size()); }

const std::vector<std::string>& ImageFolder::classes() const { return storage_->classes; }

const std::string& ImageFolder::path(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw IndexError(fmt::format("ImageFolder: example {} of {}", index, size()));
  return storage_->files[static_cast<std::size_t>(index)].path;
}

Example ImageFolder::get(std::int64_t index) const {
  const std::string& file = path(index);
  const HostTensor label = host_tensor({}, DType::i64);
  *reinterpret_cast<std::int64_t*>(label.memory) =
      storage_->files[static_cast<std::size_t>(index)].label;
  return {read_image(file, storage_->options), label.tensor};
}

}  // namespace volta::data
