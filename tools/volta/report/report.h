// The report of a training run: one self-contained HTML page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/report_data.h"

namespace volta::report {

// Returns the page as UTF-8. Throws ArgumentError for inconsistent sizes: a series with more values
// than steps, an image with missing pixels, a confusion matrix that is not square.
std::string render(const ReportData& data);

// Exponential moving average with weight `keep` on the past, unbiased from the first value on.
// Values that are not finite are kept and not averaged.
std::vector<double> smooth(std::span<const double> values, double keep = 0.95);

}  // namespace volta::report
