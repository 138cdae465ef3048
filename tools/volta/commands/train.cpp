// volta train: trains a recipe into a folder with everything about the run.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/setting_options.h"
#include "train/shell_word.h"
#include "train/trainer.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

struct TrainOptions {
  std::string recipe = "digits-cnn";
  bool recipe_given = false;
  std::optional<std::string> device, out, resume;
  bool force = false, list = false;
  SettingOptions settings;
};

std::string command_line(const TrainOptions& options) {
  std::string line = "volta train";
  const auto add = [&](const std::string& name, const std::string& value) {
    line += " " + name + " " + shell_word(value);
  };
  if (options.resume) {
    add("--resume", *options.resume);
  } else {
    line += " " + options.recipe;
  }
  if (options.device) add("--device", *options.device);
  for (const auto& [name, value] : options.settings.given()) {
    if (value) {
      add("--" + name, *value);
    } else {
      line += " --" + name;
    }
  }
  if (options.out) add("--out", *options.out);
  return line;
}

int list_recipes(const Context& context) {
  Json all = Json::array();
  for (const Recipe& recipe : recipes()) {
    const Settings settings = recipe.all_settings();
    Json list = Json::array();
    for (const Setting& setting : settings.all()) {
      list.push_back({{"name", setting.name}, {"default", setting.value}, {"what", setting.what}});
    }
    all.push_back({{"name", recipe.name}, {"what", recipe.what}, {"settings", list}});
    if (context.json) continue;
    context.out << context.terminal.bold(recipe.name) << "  "
                << wrapped(recipe.what, context.terminal.columns, 4) << '\n';
    for (const Setting& setting : settings.all()) {
      context.out << "    "
                  << wrapped(fmt::format("{}={}  {}", setting.name, setting.value, setting.what),
                             context.terminal.columns - 4, 8)
                  << '\n';
    }
  }
  if (context.json) context.print(all);
  return kSuccess;
}

std::string default_folder(const std::string& recipe) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", recipe, fmt::localtime(std::time(nullptr)));
}

Json json_of(const Settings& settings) {
  Json values = Json::object();
  for (const Setting& setting : settings.all()) values[setting.name] = setting.value;
  return values;
}

int resume(Context& context, const TrainOptions& options) {
  if (options.recipe_given)
    throw UsageError("--resume names the run, which has its recipe: leave the recipe out");
  if (options.out) throw UsageError("--resume goes on in its own folder: leave --out out");
  RunFolder folder = RunFolder::open(*options.resume);
  read_run(folder);  // checks first, so that nothing is created in other folders
  folder.lock();
  // Read again under the lock, when no other run can change it.
  RunConfig config = read_run(folder);
  options.settings.apply(config.settings);
  const Device device = device_of(config, options.device);
  const std::string before = config.json.value("device", to_string(device));
  config.json["settings"] = json_of(config.settings);
  config.json["device"] = to_string(device);
  return train(context, {.recipe = config.recipe,
                         .settings = config.settings,
                         .device = device,
                         .folder = folder,
                         .command_line = command_line(options),
                         .config = config.json,
                         .resumed_from = before});
}

int run_train(Context& context, const TrainOptions& options) {
  if (options.list) return list_recipes(context);
  for (const auto& [name, folder] :
       {std::pair{"--resume", &options.resume}, {"--out", &options.out}})
    if (*folder && (*folder)->empty())
      throw UsageError(fmt::format("{} needs a folder, got ''", name));
  if (options.resume) return resume(context, options);
  const Recipe& recipe = find_recipe(options.recipe);
  Settings settings = recipe.all_settings();
  options.settings.apply(settings);
  const Device device = Device::parse(options.device.value_or("best"));
  const RunFolder folder =
      RunFolder::create(options.out.value_or(default_folder(recipe.name)), options.force);
  return train(context, {.recipe = recipe,
                         .settings = settings,
                         .device = device,
                         .folder = folder,
                         .command_line = command_line(options),
                         .config = {{"recipe", recipe.name},
                                    {"settings", json_of(settings)},
                                    {"device", to_string(device)},
                                    {"version", version()},
                                    {"command", command_line(options)}}});
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* command =
      add_command(app, "train", "Train a recipe; everything about the run goes into one folder",
                  "volta train                                 # digits-cnn on the best device\n"
                  "volta train char-gpt --data shakespeare.txt --amp\n"
                  "volta train mlp --epochs 2 --set width=512 --out runs/wide\n"
                  "volta train --resume runs/wide              # after Ctrl-C\n"
                  "volta train --list                          # recipes and their settings");
  CLI::Option* recipe =
      command->add_option("RECIPE", options->recipe, "What to train; default digits-cnn");
  command->add_option("--device", options->device,
                      "cpu, cuda:0, opencl:0, best; with --resume the run's");
  options->settings.add_to(*command, {"data", "epochs", "steps", "batch", "lr", "amp", "seed"});
  command->add_option("--out", options->out, "The run's folder; default runs/RECIPE-DATE")
      ->type_name("FOLDER");
  command->add_option("--resume", options->resume, "Go on with the run in this folder")
      ->type_name("FOLDER");
  command->add_flag("--force", options->force, "Remove the run that is in --out");
  command->add_flag("--list", options->list, "List recipes and their settings");
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options, recipe] {
    options->recipe_given = recipe->count() > 0;
    return run_train(context, *options);
  });
}

}  // namespace volta::cli
