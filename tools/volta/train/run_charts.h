// The charts of a run's report.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "command.h"
#include "report/report.h"

namespace volta::cli {

// The measurements for the charts, by name.
class ChartSeries {
 public:
  void add(const Json& metric);  // a line of metrics.jsonl
  // Makes the charts and moves the measurements into them. `unit` is what is counted per second.
  std::vector<report::Chart> charts(const std::string& unit);

 private:
  report::Series take(const std::string& key, const std::string& name);
  std::map<std::string, report::Series, std::less<>> series_;
};

}  // namespace volta::cli
