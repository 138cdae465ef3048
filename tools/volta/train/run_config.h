// What a run was made with, read back from its folder; and the weights of a file put into a model.
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
// Throws UsageError where config.json is none of a run.
RunConfig read_run(const RunFolder& folder);

// The one that is named or else the run's own. Throws DeviceError where the run's is absent.
Device device_of(const RunConfig& run, const std::optional<std::string>& named);

// The file that --checkpoint names: "best", "last" or a path.
std::string checkpoint_file(const RunFolder& folder, const std::string& name);

// Loads a training checkpoint or a plain file of weights of any format that Volta reads. Strict:
// throws ArgumentError, in one sentence, where the file is of another model. Gives the step at
// which it was written, where the file says.
std::optional<std::int64_t> load_weights(nn::Module& model, const std::string& path,
                                         const std::string& recipe);

}  // namespace volta::cli
