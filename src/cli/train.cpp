// volta train: a recipe into a folder that has everything about the run.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "train/recipe.h"
#include "train/run_folder.h"
#include "train/trainer.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

struct Options {
  std::string recipe = "digits-cnn";
  bool recipe_given = false;
  std::string device = "best", out, resume;
  bool force = false, amp = false, list = false;
  // As --set name=value.
  std::optional<std::string> data, epochs, steps, batch, lr, seed;
  std::vector<std::string> set;
};

std::string quoted(const std::string& word) {
  const bool plain =
      word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+") ==
      std::string::npos;
  if (plain && !word.empty()) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string command_line(const Options& options) {
  std::string line = "volta train";
  const auto add = [&](const std::string& name, const std::string& value) {
    line += " " + name + " " + quoted(value);
  };
  if (!options.resume.empty()) {
    add("--resume", options.resume);
  } else {
    line += " " + options.recipe;
  }
  if (options.device != "best") add("--device", options.device);
  for (const auto& [name, value] : {std::pair{"--data", &options.data},
                                    {"--epochs", &options.epochs},
                                    {"--steps", &options.steps},
                                    {"--batch", &options.batch},
                                    {"--lr", &options.lr},
                                    {"--seed", &options.seed}}) {
    if (*value) add(name, **value);
  }
  if (options.amp) line += " --amp";
  for (const std::string& one : options.set) add("--set", one);
  if (!options.out.empty()) add("--out", options.out);
  return line;
}

// What the command line sets beyond the defaults, or beyond the run that goes on.
void apply(const Options& options, Settings& settings) {
  for (const auto& [name, value] : {std::pair{"data", &options.data},
                                    {"epochs", &options.epochs},
                                    {"steps", &options.steps},
                                    {"batch", &options.batch},
                                    {"lr", &options.lr},
                                    {"seed", &options.seed}}) {
    if (*value) settings.set(name, **value);
  }
  if (options.amp) settings.set("amp", "true");
  for (const std::string& one : options.set) settings.set(one);
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
      context.out << wrapped(
                         fmt::format("    {}={}  {}", setting.name, setting.value, setting.what),
                         context.terminal.columns, 8)
                  << '\n';
    }
  }
  if (context.json) context.print(all);
  return kSuccess;
}

std::string default_folder(const std::string& recipe) {
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", recipe, fmt::localtime(std::time(nullptr)));
}

int run(Context& context, const Options& options) {
  if (options.list) return list_recipes(context);
  if (!options.resume.empty()) {
    if (options.recipe_given)
      throw UsageError("--resume names the run, which has its recipe: leave the recipe out");
    if (!options.out.empty())
      throw UsageError("--resume goes on in its own folder: leave --out out");
    const RunFolder folder = RunFolder::open(options.resume);
    const Json config = folder.read_config();
    std::string name;
    Settings settings;
    try {
      name = config.at("recipe").get<std::string>();
      settings = find_recipe(name).all_settings();
      for (const auto& [key, value] : config.at("settings").items())
        settings.set(key, value.get<std::string>());
    } catch (const Json::exception& error) {
      throw UsageError(fmt::format("{} is no configuration of a run: {}",
                                   folder.file("config.json"), error.what()));
    }
    apply(options, settings);
    return train(context, {.recipe = find_recipe(name),
                           .settings = settings,
                           .device = Device::parse(options.device),
                           .folder = folder,
                           .command_line = command_line(options),
                           .resume = true});
  }
  const Recipe& recipe = find_recipe(options.recipe);
  Settings settings = recipe.all_settings();
  apply(options, settings);
  const Device device = Device::parse(options.device);
  const RunFolder folder = RunFolder::create(
      options.out.empty() ? default_folder(recipe.name) : options.out, options.force);
  Json values = Json::object();
  for (const Setting& setting : settings.all()) values[setting.name] = setting.value;
  folder.write_config({{"recipe", recipe.name},
                       {"settings", values},
                       {"device", to_string(device)},
                       {"version", version()},
                       {"command", command_line(options)}});
  return train(context, {.recipe = recipe,
                         .settings = settings,
                         .device = device,
                         .folder = folder,
                         .command_line = command_line(options)});
}

}  // namespace

void add_train(CLI::App& app, Context& context) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, "train", "Train a recipe; everything about the run goes into one folder",
                  "volta train                                 # digits-cnn on the best device\n"
                  "volta train char-gpt --data shakespeare.txt --amp\n"
                  "volta train mlp --epochs 2 --set width=512 --out runs/wide\n"
                  "volta train --resume runs/wide              # after Ctrl-C\n"
                  "volta train --list                          # recipes and their settings");
  CLI::Option* recipe =
      command->add_option("recipe", options->recipe, "What to train; default digits-cnn");
  command->add_option("--device", options->device, "cpu, cuda:0, opencl:0, best");
  command->add_option("--data", options->data, "A folder or file; else what Volta has built in");
  command->add_option("--epochs", options->epochs, "Passes over the data");
  command->add_option("--steps", options->steps, "Updates, instead of epochs");
  command->add_option("--batch", options->batch, "Examples of an update");
  command->add_option("--lr", options->lr, "The highest learning rate");
  command->add_flag("--amp", options->amp, "Products and convolutions in bf16");
  command->add_option("--seed", options->seed, "Of weights, order and dropout");
  command->add_option("--out", options->out, "The run's folder; default runs/RECIPE-DATE");
  command->add_option("--resume", options->resume, "Go on with the run in this folder");
  command->add_option("--set", options->set, "name=value; --list names them, may be repeated");
  command->add_flag("--force", options->force, "Remove the run that is in --out");
  command->add_flag("--list", options->list, "List recipes and their settings");
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options, recipe] {
    options->recipe_given = recipe->count() > 0;
    return run(context, *options);
  });
}

}  // namespace volta::cli
