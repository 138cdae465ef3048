// SummaryWriter: writes TensorBoard's messages field by field (tensorboard/compat/proto).
#include "volta/io/summary_writer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/events/event_file.h"
#include "io/events/protobuf.h"
#include "volta/detail/png_write.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta {
namespace {

using io::ProtoMessage;
using Clock = std::chrono::steady_clock;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The upper limits of a histogram's buckets, from the lowest to the highest double, symmetric about
// 0.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all{std::numeric_limits<double>::lowest()};
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

ProtoMessage histogram_of(const std::string& tag, std::span<const double> values) {
  if (values.empty()) throw ArgumentError(fmt::format("add_histogram: '{}' has no values", tag));
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double sum = 0, squares = 0;
  double least = values[0], most = values[0];
  for (const double value : values) {
    if (!std::isfinite(value))
      throw ArgumentError(fmt::format("add_histogram: '{}' has a value of {}", tag, value));
    // Bucket i has limits[i - 1] <= value < limits[i]. The last bucket includes the highest number.
    const auto above = std::upper_bound(limits.begin(), limits.end() - 1, value);
    ++counts[static_cast<std::size_t>(above - limits.begin())];
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const auto is_used = [](double count) { return count > 0; };
  auto first = static_cast<std::size_t>(std::ranges::find_if(counts, is_used) - counts.begin());
  if (first > 0) --first;  // an empty bucket marks where the first one begins
  const auto last = static_cast<std::size_t>(counts.rend() -
                                             std::find_if(counts.rbegin(), counts.rend(), is_used));
  ProtoMessage histogram;
  histogram.number(1, least)
      .number(2, most)
      .number(3, static_cast<double>(values.size()))
      .number(4, sum)
      .number(5, squares)
      .numbers(6, std::span(limits).subspan(first, last - first))
      .numbers(7, std::span(counts).subspan(first, last - first));
  return histogram;
}

std::vector<std::uint8_t> pixels_of(const Tensor& image) {
  if (image.dtype() == DType::u8) return image.to_vector<std::uint8_t>();
  std::vector<std::uint8_t> pixels;
  for (const float value : image.to(DType::f32).to_vector<float>()) {
    const float scaled = value * 255;
    pixels.push_back(scaled >= 255 ? 255 : scaled > 0 ? static_cast<std::uint8_t>(scaled) : 0);
  }
  return pixels;
}

ProtoMessage image_of(const std::string& tag, const Tensor& given) {
  if (!given.defined())
    throw ArgumentError(fmt::format("add_image: '{}': the tensor is undefined", tag));
  const Shape shape = given.rank() == 2 ? given.shape().inserted(0, 1) : given.shape();
  const std::int64_t channels = shape.rank() == 3 ? shape[0] : 0;
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 28;
  const bool sensible = (channels == 1 || channels == 3 || channels == 4) && shape.numel() > 0 &&
                        shape.numel() <= kMostPixels;
  if (!sensible)
    throw ShapeError(fmt::format(
        "add_image: '{}' is {}, not [1, 3 or 4 channels, height, width] or [height, width]", tag,
        to_string(given.shape())));
  if (given.dtype() != DType::u8 && !is_floating(given.dtype()))
    throw DTypeError(
        fmt::format("add_image: '{}' is {}, neither u8 nor floating", tag, name_of(given.dtype())));
  const std::vector<std::uint8_t> planes = pixels_of(given.detach().to(Device::cpu()));
  std::vector<std::uint8_t> pixels(planes.size());
  const auto depth = static_cast<std::size_t>(channels), area = planes.size() / depth;
  for (std::size_t c = 0; c < depth; ++c)
    for (std::size_t i = 0; i < area; ++i) pixels[i * depth + c] = planes[c * area + i];
  ProtoMessage message;
  message.integer(1, shape[1]).integer(2, shape[2]).integer(3, channels);
  message.text(4, io::encode_png(pixels, static_cast<std::uint32_t>(shape[2]),
                                 static_cast<std::uint32_t>(shape[1]), static_cast<int>(channels)));
  return message;
}

}  // namespace

struct SummaryWriter::State {
  State(const std::string& run_folder, SummaryWriterOptions given)
      : folder(run_folder),
        options(std::move(given)),
        file(run_folder, options.filename_suffix, now()) {
    ProtoMessage first;
    first.number(1, now()).text(3, "brain.Event:2");
    file.add(first.bytes());
    file.flush();
  }

  // Adds a value whose content is complete. The caller holds the lock.
  void add(const char* function, const std::string& tag, const ProtoMessage& content,
           std::int64_t step, std::optional<double> wall_time) {
    if (is_closed) throw ArgumentError(fmt::format("{}: the writer is closed", function));
    if (tag.empty() || io::valid_utf8_prefix(tag) != tag.size())
      throw ArgumentError(fmt::format("{}: a tag is empty or not valid UTF-8", function));
    ProtoMessage value, summary, event;
    value.text(1, tag);
    summary.text(1, value.bytes() + content.bytes());
    event.number(1, wall_time.value_or(now())).integer(2, step).message(5, summary);
    file.add(event.bytes());
    const std::chrono::duration<double> since = Clock::now() - last_flush;
    if (file.waiting() >= options.max_queue || since.count() >= options.flush_seconds) write();
  }

  void write() {
    last_flush = Clock::now();
    file.flush();
  }

  const std::string folder;
  const SummaryWriterOptions options;
  std::mutex mutex;
  io::EventFile file;
  Clock::time_point last_flush = Clock::now();
  bool is_closed = false;
  std::map<std::string, SummaryWriter> curves;  // writers of add_scalars, by folder
};

SummaryWriter::SummaryWriter(const std::string& folder, SummaryWriterOptions options)
    : state_(std::make_unique<State>(folder, std::move(options))) {}
SummaryWriter::SummaryWriter(SummaryWriter&& other) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&& other) noexcept = default;

SummaryWriter::~SummaryWriter() {
  if (!state_) return;
  try {
    close();
  } catch (const std::exception& error) {
    log(LogLevel::error, fmt::format("SummaryWriter: {}", error.what()));
  }
}

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t step,
                               std::optional<double> wall_time) {
  ProtoMessage content;
  content.number(2, static_cast<float>(value));
  const std::lock_guard guard(state_->mutex);
  state_->add("add_scalar", tag, content, step, wall_time);
}

void SummaryWriter::add_scalar(const std::string& tag, const Tensor& value, std::int64_t step,
                               std::optional<double> wall_time) {
  add_scalar(tag, value.item(), step, wall_time);
}

void SummaryWriter::add_scalars(const std::string& tag, const std::map<std::string, double>& values,
                                std::int64_t step, std::optional<double> wall_time) {
  const std::lock_guard guard(state_->mutex);
  if (state_->is_closed) throw ArgumentError("add_scalars: the writer is closed");
  for (const auto& [name, value] : values) {
    std::string folder = fmt::format("{}_{}", tag, name);
    std::ranges::replace(folder, '/', '_');
    auto curve = state_->curves.find(folder);
    if (curve == state_->curves.end())
      curve = state_->curves
                  .emplace(folder, SummaryWriter(state_->folder + "/" + folder, state_->options))
                  .first;
    curve->second.add_scalar(tag, value, step, wall_time);
  }
}

void SummaryWriter::add_histogram(const std::string& tag, std::span<const double> values,
                                  std::int64_t step, std::optional<double> wall_time) {
  ProtoMessage content;
  content.message(5, histogram_of(tag, values));
  const std::lock_guard guard(state_->mutex);
  state_->add("add_histogram", tag, content, step, wall_time);
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& values, std::int64_t step,
                                  std::optional<double> wall_time) {
  const std::vector<double> numbers =
      values.detach().to(Device::cpu()).to(DType::f64).to_vector<double>();
  add_histogram(tag, numbers, step, wall_time);
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, std::int64_t step,
                              std::optional<double> wall_time) {
  ProtoMessage content;
  content.message(4, image_of(tag, image));
  const std::lock_guard guard(state_->mutex);
  state_->add("add_image", tag, content, step, wall_time);
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step,
                             std::optional<double> wall_time) {
  constexpr int kStringDtype = 7;
  ProtoMessage content, metadata, plugin, tensor, shape, axis;
  plugin.text(1, "text");
  metadata.message(1, plugin);
  axis.integer(1, 1);
  shape.message(2, axis);
  tensor.integer(1, kStringDtype).message(2, shape).text(8, text);
  content.message(8, tensor).message(9, metadata);
  const std::lock_guard guard(state_->mutex);
  state_->add("add_text", tag + "/text_summary", content, step, wall_time);
}

void SummaryWriter::flush() {
  const std::lock_guard guard(state_->mutex);
  if (state_->is_closed) return;
  state_->write();
  for (auto& [folder, curve] : state_->curves) curve.flush();
}

void SummaryWriter::close() {
  const std::lock_guard guard(state_->mutex);
  if (state_->is_closed) return;
  state_->is_closed = true;
  state_->write();
  for (auto& [folder, curve] : state_->curves) curve.close();
}

const std::string& SummaryWriter::path() const { return state_->file.path(); }

}  // namespace volta
