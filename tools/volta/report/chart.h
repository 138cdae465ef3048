// Charts of the report, as inline SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/axis.h"
#include "cli/report/report_data.h"

namespace volta::report {

struct Point {
  double x = 0;
  double y = 0;
};
// A line that looks the same when drawn that many columns wide: of each column the smallest and the
// largest value, in their order.
struct ThinLine {
  std::vector<std::vector<Point>> runs;  // between gaps
  std::vector<double> gaps;              // x of values that are not finite, one per column
};
ThinLine thinned(std::span<const double> x, std::span<const double> y, const Axis& x_axis,
                 int columns);

// `index` makes names in the page unique; `columns` bounds how finely lines are drawn.
std::string chart_markup(const Chart& chart, int index, int columns);

}  // namespace volta::report
