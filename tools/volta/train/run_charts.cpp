#include "train/run_charts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace volta::cli {
namespace {

std::map<std::string, report::Series> series_of(const std::vector<Json>& measurements) {
  std::map<std::string, report::Series> series;
  for (const Json& line : measurements) {
    for (const auto& [key, value] : line.items()) {
      if (key == "step") continue;
      report::Series& one = series[key];
      one.name = key;
      one.x.push_back(line["step"].get<double>());
      one.y.push_back(value.is_number() ? value.get<double>()
                                        : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return series;
}

}  // namespace

std::vector<report::Chart> charts_of(const std::vector<Json>& measurements,
                                     const std::string& unit) {
  std::map<std::string, report::Series> series = series_of(measurements);
  const auto take = [&](const std::string& key, const std::string& name) {
    report::Series one = series[key];
    one.name = name;
    series.erase(key);
    return one;
  };
  std::vector<report::Chart> charts;
  report::Series loss = take("loss", "training");
  // Over about a tenth of the run, or fifty measurements.
  const double count = static_cast<double>(loss.y.size());
  loss.smoothed = report::smooth(loss.y, std::clamp(1 - 10 / std::max(count, 1.0), 0.0, 0.98));
  std::vector<report::Series> losses = {std::move(loss)};
  for (const char* name : {"test loss", "validation loss"})
    if (series.contains(name)) losses.push_back(take(name, name));
  charts.push_back(
      {.title = "Loss", .series = std::move(losses), .offer_log = true, .from_zero = false});
  for (const char* name : {"test accuracy", "perplexity"}) {
    if (!series.contains(name)) continue;
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
