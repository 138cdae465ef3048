// Trains a task: steps, evaluations, checkpoints, measurements and progress.
#pragma once

#include <optional>
#include <string>

#include "command.h"
#include "train/recipe.h"
#include "train/run_folder.h"

namespace volta::cli {

struct TrainRun {
  const Recipe& recipe;
  Settings settings;
  Device device;
  RunFolder folder;
  std::string command_line;
  Json config;  // written to the folder when the run begins
  std::optional<std::string> resumed_from = std::nullopt;  // for a resumed run, its former device
};

// Returns the exit code: 130 after Ctrl-C and 143 after SIGTERM, which leave a run that can be
// resumed. Throws if the run has no usable result: its weights are NaN at the end, or could not be
// saved.
int train(Context& context, TrainRun run);

}  // namespace volta::cli
