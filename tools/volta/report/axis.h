// Axes of charts: ranges that end on round numbers, ticks and their labels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace volta::report {

struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;
  std::vector<double> ticks;

  double share(double value) const;  // 0 at low, 1 at high
};

// An axis from a round number at or below `low` to one at or above `high`.
Axis round_axis(double low, double high, int most_ticks);
Axis log_axis(double low, double high);  // 0 < low <= high
// An axis exactly from low to high; with `whole`, ticks are whole numbers.
Axis tight_axis(double low, double high, int most_ticks, bool whole);

// Labels contain the unit only if it is short: "40%", "1.5 GB".
std::vector<std::string> tick_labels(const Axis& axis, std::string_view unit);

}  // namespace volta::report
