// The report of a training run, from the files of its folder and what the trainer knows.
#pragma once

#include <cstdint>
#include <optional>

#include "report/report.h"
#include "train/trainer.h"

namespace volta::cli {

struct RunProgress {
  std::int64_t steps = 0;
  double seconds = 0;
  bool has_checkpoint = false;
  std::optional<report::Metric> best;
};

// Everything in the report except the plan.
report::ReportData report_data(const TrainRun& run, Task& task, const Evaluation& evaluation,
                               const RunProgress& progress, report::Status status);

}  // namespace volta::cli
