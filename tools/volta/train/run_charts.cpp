#include "train/run_charts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace volta::cli {
namespace {

// Other names are ignored, because a file may have any number of them.
constexpr const char* kDrawn[] = {"loss",       "test loss", "validation loss",
                                  "perplexity", "waiting",   "test accuracy",
                                  "lr",         "memory",    "units_per_second"};

}  // namespace

void ChartSeries::add(const Json& metric) {
  for (const char* key : kDrawn) {
    const auto found = metric.find(key);
    if (found == metric.end()) continue;
    report::Series& one = series_[key];
    one.x.push_back(metric["step"].get<double>());
    one.y.push_back(found->is_number() ? found->get<double>()
                                       : std::numeric_limits<double>::quiet_NaN());
  }
}

report::Series ChartSeries::take(const std::string& key, const std::string& name) {
  report::Series one = std::move(series_[key]);
  one.name = name;
  series_.erase(key);
  return one;
}

std::vector<report::Chart> ChartSeries::charts(const std::string& unit) {
  std::vector<report::Chart> charts;
  report::Series loss = take("loss", "training");
  // Smooths over about a tenth of the run, or fifty measurements.
  const double count = static_cast<double>(loss.y.size());
  loss.smoothed = report::smooth(loss.y, std::clamp(1 - 10 / std::max(count, 1.0), 0.0, 0.98));
  std::vector<report::Series> losses = {std::move(loss)};
  for (const char* name : {"test loss", "validation loss"})
    if (series_.contains(name)) losses.push_back(take(name, name));
  charts.push_back(
      {.title = "Loss", .series = std::move(losses), .offer_log = true, .from_zero = false});
  for (const char* name : {"test accuracy", "perplexity"}) {
    if (!series_.contains(name)) continue;
    charts.push_back({.title = name,
                      .unit = std::string(name) == "test accuracy" ? "%" : "",
                      .series = {take(name, name)},
                      .from_zero = false});
  }
  report::Series waiting = take("waiting", "waiting");
  for (double& share : waiting.y) share *= 100;
  charts.push_back({.title = "Learning rate", .series = {take("lr", "lr")}, .minor = true});
  charts.push_back({.title = "Throughput, " + unit + " a second",
                    .series = {take("units_per_second", "throughput")},
                    .minor = true});
  charts.push_back({.title = "Time spent waiting for data",
                    .unit = "%",
                    .series = {std::move(waiting)},
                    .minor = true});
  charts.push_back({.title = "Memory of the device",
                    .unit = "B",
                    .series = {take("memory", "memory")},
                    .minor = true});
  return charts;
}

}  // namespace volta::cli
