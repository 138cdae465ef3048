// SummaryWriter: event files for TensorBoard, with the calls of torch.utils.tensorboard.
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
  std::int64_t max_queue = 10;  // entries kept back before they are written
  double flush_seconds = 120;   // and how long at most, looked at when something is added
};

// Appends to a new file "events.out.tfevents.*" in the folder, which is made if need be; one run is
// one folder. Values are fetched from their device at the call. Throws IoError naming the file. May
// be used by several threads.
class VOLTA_API SummaryWriter {
 public:
  explicit SummaryWriter(const std::string& folder, SummaryWriterOptions options = {});
  ~SummaryWriter();  // writes what is left; a failure then is logged
  SummaryWriter(SummaryWriter&& other) noexcept;
  SummaryWriter& operator=(SummaryWriter&& other) noexcept;

  // `wall_time` is in seconds since 1970; by default now.
  void add_scalar(const std::string& tag, double value, std::int64_t step = 0,
                  std::optional<double> wall_time = {});
  void add_scalar(const std::string& tag, const Tensor& value, std::int64_t step = 0,
                  std::optional<double> wall_time = {});
  // Curves in one chart: each is a run of its own, in the folder "<folder>/<tag>_<name>".
  void add_scalars(const std::string& tag, const std::map<std::string, double>& values,
                   std::int64_t step = 0, std::optional<double> wall_time = {});
  // How the values are distributed, over buckets that grow by a tenth. Throws ArgumentError where
  // there is none, or one is not finite.
  void add_histogram(const std::string& tag, const Tensor& values, std::int64_t step = 0,
                     std::optional<double> wall_time = {});
  void add_histogram(const std::string& tag, std::span<const double> values, std::int64_t step = 0,
                     std::optional<double> wall_time = {});
  // [channels, height, width] or [height, width]; 1, 3 or 4 channels. u8, or floats, of which 0 is
  // black and 1 is white; what lies beyond counts as those.
  void add_image(const std::string& tag, const Tensor& image, std::int64_t step = 0,
                 std::optional<double> wall_time = {});
  void add_text(const std::string& tag, const std::string& text, std::int64_t step = 0,
                std::optional<double> wall_time = {});

  void flush();                     // what was added is in the file afterwards
  void close();                     // flushes; nothing can be added any more
  const std::string& path() const;  // of the event file

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace volta
