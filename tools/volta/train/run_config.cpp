#include "train/run_config.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model_file.h"
#include "output/units.h"
#include "volta/error.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

// Appends "2 missing (fc1.weight [16, 784], ...)" with the first few names.
void describe(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += fmt::format("{}{} {} ({}{})", text.empty() ? "" : ", ", human_count(names.size()), what,
                      names.front(), names.size() > 1 ? ", ..." : "");
}

std::optional<std::int64_t> step_of(const std::map<std::string, std::string>& metadata) {
  for (const char* key : {"number.step", "step"}) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) continue;
    std::int64_t step = 0;
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
    if (error == std::errc() && end == text.data() + text.size()) return step;
  }
  return std::nullopt;
}

// Returns the model's tensors; a training checkpoint has others as well.
StateDict weights_of(const ModelFile& file, bool checkpoint) {
  if (!checkpoint) return file.state;
  constexpr std::string_view kPrefix = "model.";
  StateDict weights;
  for (const auto& [name, tensor] : file.state)
    if (name.starts_with(kPrefix)) weights.add(name.substr(kPrefix.size()), tensor);
  return weights;
}

}  // namespace

RunConfig read_run(const RunFolder& folder) {
  Json json = folder.read_config();
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("{} is no configuration of a run: {}", folder.file("config.json"), why));
  };
  if (!json.contains("recipe") || !json["recipe"].is_string()) refuse("it names no recipe");
  if (!json.contains("settings") || !json["settings"].is_object()) refuse("it has no settings");
  if (json.contains("device") && !json["device"].is_string()) refuse("its device is no text");
  for (const auto& [key, value] : json["settings"].items())
    if (!value.is_string()) refuse(fmt::format("the setting {} is no text", key));
  try {
    const Recipe& recipe = find_recipe(json["recipe"].get<std::string>());
    Settings settings = recipe.all_settings();
    for (const auto& [key, value] : json["settings"].items())
      settings.set(key, value.get<std::string>());
    return {.recipe = recipe, .settings = std::move(settings), .json = std::move(json)};
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", folder.file("config.json"), error.what()));
  }
}

Device device_of(const RunConfig& run, const std::optional<std::string>& named) {
  if (named || !run.json.contains("device")) return Device::parse(named.value_or("best"));
  const auto own = run.json["device"].get<std::string>();
  try {
    return Device::parse(own);
  } catch (const Error& error) {
    throw DeviceError(fmt::format(
        "the run was made on {}, which cannot be used here: {}; choose another with --device", own,
        error.what()));
  }
}

std::string checkpoint_file(const RunFolder& folder, const std::string& name) {
  if (name != "best" && name != "last") return name;
  std::string file = name == "best" ? folder.best() : folder.last();
  std::error_code error;
  if (!fs::exists(file, error)) {
    throw IoError(
        fmt::format("{} has no {}: the run was stopped before it was written, or the disk was full",
                    folder.path().string(), fs::path(file).filename().string()));
  }
  return file;
}

std::optional<std::int64_t> load_weights(nn::Module& model, const std::string& path,
                                         const std::string& recipe) {
  const ModelFile file = read_model(path, {.in_place = false, .allow_unreadable = true});
  const auto format = file.metadata.find("format");
  const bool checkpoint = format != file.metadata.end() && format->second == "volta.checkpoint";
  const nn::LoadReport report =
      model.load_state_dict(weights_of(file, checkpoint), {.strict = false});
  if (!report.complete()) {
    std::string differences;
    describe(differences, "missing", report.missing);
    describe(differences, "unexpected", report.unexpected);
    describe(differences, "of another shape", report.wrong_shape);
    throw ArgumentError(
        fmt::format("{} has the weights of another model than {} with these settings: {}", path,
                    recipe, differences));
  }
  return step_of(file.metadata);
}

}  // namespace volta::cli
