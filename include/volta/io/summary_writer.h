// SummaryWriter: event files for TensorBoard, with the interface of torch.utils.tensorboard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "volta/tensor.h"

namespace volta {

struct SummaryWriterOptions {
  std::string filename_suffix = {};
  std::int64_t max_queue = 10;  // entries that are buffered before they are written
  double flush_seconds = 120;   // longest time in the buffer, checked when an entry is added
};

// Appends to a new file "events.out.tfevents.*" in the folder, which is created if it is missing;
// each run has its own folder. Values are fetched from their device at the call. Throws IoError
// naming the file. Several threads may use it.
class VOLTA_API SummaryWriter {
 public:
  explicit SummaryWriter(const std::string& folder, SummaryWriterOptions options = {});
  ~SummaryWriter();  // writes the remaining entries; failures are logged
  SummaryWriter(SummaryWriter&& other) noexcept;
  SummaryWriter& operator=(SummaryWriter&& other) noexcept;

  // `wall_time` is in seconds since 1970, by default the current time.
  void add_scalar(const std::string& tag, double value, std::int64_t step = 0,
                  std::optional<double> wall_time = {});
  void add_scalar(const std::string& tag, const Tensor& value, std::int64_t step = 0,
                  std::optional<double> wall_time = {});
  // Curves in one chart. Each is a run of its own, in the folder "<folder>/<tag>_<name>".
  void add_scalars(const std::string& tag, const std::map<std::string, double>& values,
                   std::int64_t step = 0, std::optional<double> wall_time = {});
  // The distribution of the values, in buckets that grow by 10 %. Throws ArgumentError for an empty
  // tensor or values that are not finite.
  void add_histogram(const std::string& tag, const Tensor& values, std::int64_t step = 0,
                     std::optional<double> wall_time = {});
  void add_histogram(const std::string& tag, std::span<const double> values, std::int64_t step = 0,
                     std::optional<double> wall_time = {});
  // Images are [channels, height, width] or [height, width], with 1, 3 or 4 channels, as u8 or as
  // floats from 0 (black) to 1 (white); values outside are clamped.
  void add_image(const std::string& tag, const Tensor& image, std::int64_t step = 0,
                 std::optional<double> wall_time = {});
  void add_text(const std::string& tag, const std::string& text, std::int64_t step = 0,
                std::optional<double> wall_time = {});

  void flush();                     // writes all entries to the file
  void close();                     // flushes; nothing can be added afterwards
  const std::string& path() const;  // path of the event file

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace volta
