// The content of a training run's report. Every part is optional, and empty parts are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "volta/execution.h"
#include "volta/nn/summary.h"

namespace volta::report {

// A line of a chart. Values that are not finite are gaps, which the chart marks.
struct Series {
  std::string name = {};
  std::vector<double> x = {};  // ascending steps
  std::vector<double> y = {};  // one value per step
  // Empty, or as long as y. It is drawn over y, which becomes a faint line; see smooth() in
  // report.h.
  std::vector<double> smoothed = {};
};

struct Chart {
  std::string title = {};
  std::string unit = {};  // unit of y: "%" for 0 to 100, "B" for bytes, "" for a plain number
  std::string x_label = "step";
  std::vector<Series> series = {};
  bool offer_log = false;  // offers a log scale if the values span a decade
  bool from_zero = true;   // if false, the axis may begin near the smallest value
  bool minor = false;      // a small chart, shown after the others
};

struct Metric {
  std::string name = {};  // "test accuracy"
  double value = 0;
  std::string unit = {};
  std::optional<std::int64_t> step = std::nullopt;  // step at which it was reached
};

struct Totals {
  std::optional<std::int64_t> steps = std::nullopt;
  std::optional<double> epochs = std::nullopt;
  std::optional<double> seconds = std::nullopt;
  std::optional<double> samples_per_second = std::nullopt;
  std::optional<Metric> best = std::nullopt;
};

enum class State : std::uint8_t { running, finished, interrupted, failed };
struct Status {
  State state = State::finished;
  std::optional<std::int64_t> step = std::nullopt;  // where the run ended, unless it finished
  std::string reason = {};                          // error message of a failure
};

// counts[i * labels.size() + j] is the number of examples of class i that were predicted as class
// j.
struct Confusion {
  std::vector<std::string> labels = {};
  std::vector<std::uint64_t> counts = {};
};

struct TextSample {
  std::string prompt = {};
  std::string text = {};  // the generated continuation
  std::optional<std::int64_t> step = std::nullopt;
};

// Pixels are in row order with interleaved channels: 1 (grey), 3 (RGB) or 4 (RGBA).
struct ImageSample {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int channels = 1;
  std::vector<std::uint8_t> pixels = {};
  std::string label = {};
  std::string predicted = {};
  std::optional<double> confidence = std::nullopt;  // 0 to 1
};

struct Setting {
  std::string key = {};
  std::string value = {};
};
struct File {
  std::string name = {};
  std::uint64_t bytes = 0;
  std::string what = {};  // "best checkpoint, step 4200"
};
struct Command {
  std::string what = {};  // "Resume"
  std::string line = {};
};

struct ReportData {
  std::string title = {};  // default: the recipe
  std::string recipe = {};
  std::string command_line = {};
  std::string device = {};
  std::string version = {};  // version of Volta
  std::string date = {};
  Status status = {};
  Totals totals = {};
  std::vector<Setting> config = {};
  std::vector<Chart> charts = {};
  std::optional<Confusion> confusion = std::nullopt;
  std::vector<TextSample> texts = {};
  std::vector<ImageSample> images = {};
  nn::Summary model = {};
  Explanation plan = {};  // plan of a training step
  std::vector<File> files = {};
  std::vector<Command> commands = {};  // commands to resume, evaluate or generate
};

}  // namespace volta::report
