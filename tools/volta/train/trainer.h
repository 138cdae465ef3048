// Trains a task: steps, evaluations, checkpoints, what is measured and shown meanwhile.
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
  Json config;  // written into the folder when the run begins
  std::optional<std::string> resumed_from = std::nullopt;  // a run that goes on: its device before
};

// Returns the exit code: a run that Ctrl-C ended is one that can be resumed, and 130; 143 after
// SIGTERM. Throws where the run comes to nothing: its weights are NaN at the end, or not saved.
int train(Context& context, TrainRun run);

}  // namespace volta::cli
