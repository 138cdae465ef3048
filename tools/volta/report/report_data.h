// What a report of a training run tells. Every piece is optional: what is empty is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "volta/execution.h"
#include "volta/nn/summary.h"

namespace volta::report {

// One line of a chart. Values that are not finite are gaps, which the chart marks.
struct Series {
  std::string name = {};
  std::vector<double> x = {};  // steps, ascending
  std::vector<double> y = {};  // as many
  // As many as y, or none. Drawn over y, which becomes a faint line; smooth() in report.h makes it.
  std::vector<double> smoothed = {};
};

struct Chart {
  std::string title = {};
  std::string unit = {};  // of y: "%" for 0 to 100, "B" for bytes; "" for a plain number
  std::string x_label = "step";
  std::vector<Series> series = {};
  bool offer_log = false;  // where the values span a decade, the reader may choose a log scale
  bool from_zero = true;   // otherwise the axis may begin near the smallest value
  bool minor = false;      // a small one, shown after the others
};

struct Metric {
  std::string name = {};  // "test accuracy"
  double value = 0;
  std::string unit = {};
  std::optional<std::int64_t> step = std::nullopt;  // when it was reached
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
  std::optional<std::int64_t> step = std::nullopt;  // where it ended, unless it finished
  std::string reason = {};                          // of a failure: the error's message
};

// counts[i * labels.size() + j] examples of class i were taken for class j.
struct Confusion {
  std::vector<std::string> labels = {};
  std::vector<std::uint64_t> counts = {};
};

struct TextSample {
  std::string prompt = {};
  std::string text = {};  // what followed
  std::optional<std::int64_t> step = std::nullopt;
};

// Pixels row by row, channels together: 1 (grey), 3 (RGB) or 4 (RGBA).
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
  std::string title = {};  // without one: the recipe
  std::string recipe = {};
  std::string command_line = {};
  std::string device = {};
  std::string version = {};  // Volta's
  std::string date = {};
  Status status = {};
  Totals totals = {};
  std::vector<Setting> config = {};
  std::vector<Chart> charts = {};
  std::optional<Confusion> confusion = std::nullopt;
  std::vector<TextSample> texts = {};
  std::vector<ImageSample> images = {};
  nn::Summary model = {};
  Explanation plan = {};  // of a training step
  std::vector<File> files = {};
  std::vector<Command> commands = {};  // what can be done with the run: resume, evaluate, generate
};

}  // namespace volta::report
