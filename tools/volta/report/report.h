// The report of a training run: one HTML page that needs nothing else.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/report/report_data.h"

namespace volta::report {

// The page, UTF-8. Throws ArgumentError where sizes contradict each other: a series with more
// values than steps, an image with missing pixels, a confusion matrix that is not square.
std::string render(const ReportData& data);

// Exponential moving average that keeps the share `keep` of the past, unbiased from the first value
// on. Values that are not finite stay as they are and do not count.
std::vector<double> smooth(std::span<const double> values, double keep = 0.95);

}  // namespace volta::report
