// The charts of a run's report.
#pragma once

#include <string>
#include <vector>

#include "cli/report/report.h"
#include "command.h"

namespace volta::cli {

// Of the measurements in metrics.jsonl; `unit` is what is counted a second.
std::vector<report::Chart> charts_of(const std::vector<Json>& measurements,
                                     const std::string& unit);

}  // namespace volta::cli
