// Charts of the report, as inline SVG.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/axis.h"
#include "report/report_data.h"

namespace volta::report {

struct Point {
  double x = 0;
  double y = 0;
};
// A line that looks the same when it is drawn `columns` wide: each column keeps its smallest and
// largest value, in order.
struct ThinLine {
  std::vector<std::vector<Point>> runs;  // separated by gaps
  std::vector<double> gaps;              // x of values that are not finite, one per column
};
ThinLine thinned(std::span<const double> x, std::span<const double> y, const Axis& x_axis,
                 int columns);

// `index` makes names in the page unique; `columns` limits the detail of lines.
std::string chart_markup(const Chart& chart, int index, int columns);

}  // namespace volta::report
