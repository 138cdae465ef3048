// The configuration of a run, read from its folder, and loading of weights into a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command.h"
#include "train/recipe.h"
#include "train/run_folder.h"
#include "volta/device.h"
#include "volta/nn/module.h"

namespace volta::cli {

struct RunConfig {
  const Recipe& recipe;
  Settings settings;
  Json json;  // the whole of config.json
};
// Throws UsageError if config.json does not belong to a run.
RunConfig read_run(const RunFolder& folder);

// Returns the named device or else the run's own. Throws DeviceError if the run's device is absent.
Device device_of(const RunConfig& run, const std::optional<std::string>& named);

// Returns the file that --checkpoint names: "best", "last" or a path.
std::string checkpoint_file(const RunFolder& folder, const std::string& name);

// Loads a training checkpoint or a file of weights in any format that Volta reads. Throws
// ArgumentError with one sentence if the file belongs to another model. Returns the step at which
// it was written, if the file has it.
std::optional<std::int64_t> load_weights(nn::Module& model, const std::string& path,
                                         const std::string& recipe);

}  // namespace volta::cli
