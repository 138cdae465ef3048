// volta tune: times the possible schedules of a recipe's training steps within a time budget, and
// keeps the fastest for every program on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "output/table.h"
#include "output/units.h"
#include "output_file.h"
#include "train/recipe.h"
#include "train/setting_options.h"
#include "train/step_runner.h"
#include "volta/error.h"
#include "volta/io/durable_file.h"
#include "volta/kernel_cache.h"
#include "volta/tuning.h"

namespace volta::cli {
namespace {

struct TuneOptions {
  std::vector<std::string> recipes;
  std::string device = "best", export_file;
  double seconds = 60;
  std::int64_t steps = 3;
  bool force = false;
  SettingOptions settings;
};

const char* name_of(TuningSource source) {
  switch (source) {
    case TuningSource::Timed:
      return "timed";
    case TuningSource::Remembered:
      return "remembered";
    case TuningSource::Shipped:
      return "shipped";
    case TuningSource::Adopted:
      return "adopted";
    case TuningSource::Untimed:
      break;
  }
  return "untimed";
}

std::string microseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.1f} us", 1e6 * seconds) : "";
}

std::string gain(const TunedChoice& choice) {
  if (choice.source != TuningSource::Timed || choice.chosen == choice.usual) return "";
  return fmt::format("{:.0f}%", 100 * (1 - choice.chosen_seconds / choice.usual_seconds));
}

Json json_of(const std::vector<TunedChoice>& choices) {
  Json all = Json::array();
  for (const TunedChoice& choice : choices) {
    const bool timed = choice.source == TuningSource::Timed;
    all.push_back({{"what", choice.what},
                   {"source", name_of(choice.source)},
                   {"usual", choice.usual},
                   {"chosen", choice.chosen},
                   {"usual_seconds", timed ? Json(choice.usual_seconds) : Json()},
                   {"chosen_seconds", timed ? Json(choice.chosen_seconds) : Json()}});
  }
  return all;
}

void print(const Context& context, const std::vector<TunedChoice>& choices) {
  Table table({{.title = "kernel", .importance = 6, .shortens = true},
               {.title = "usual", .importance = 2, .shortens = true},
               {.title = "chosen", .importance = 5, .shortens = true},
               {.title = "known by", .importance = 3},
               {.title = "usual", .align = Align::right, .importance = 1},
               {.title = "chosen", .align = Align::right, .importance = 1},
               {.title = "gain", .align = Align::right, .importance = 4}});
  for (const TunedChoice& choice : choices) {
    table.add({choice.what, choice.usual,
               choice.chosen == choice.usual ? "the usual" : choice.chosen, name_of(choice.source),
               microseconds(choice.usual_seconds), microseconds(choice.chosen_seconds),
               gain(choice)});
  }
  if (!table.empty()) table.print(context.out, context.terminal);
}

int run_tune(const Context& context, const TuneOptions& options) {
  const Device device = Device::parse(options.device);
  if (device.is_cpu())
    throw UsageError(
        "the CPU's kernels have one schedule each, there is nothing to time: give --device a GPU");
  if (!options.export_file.empty()) check_output(options.export_file, options.force);
  set_tuning_seconds(options.seconds);
  std::vector<std::string> names = options.recipes;
  if (names.empty()) names = {"digits-cnn"};
  std::vector<const Recipe*> chosen;
  for (const std::string& name : names) chosen.push_back(&find_recipe(name));
  for (const Recipe* recipe : chosen) {
    Settings settings = recipe->all_settings();
    options.settings.apply(settings);
    StepRunner(*recipe, settings, device).train(options.steps);
  }
  const std::vector<TunedChoice> choices = tuned_choices();
  const double spent = tuning_seconds_spent();
  if (!options.export_file.empty()) write_durably(options.export_file, export_tuning());
  const auto untimed = static_cast<std::uint64_t>(
      std::ranges::count(choices, TuningSource::Untimed, &TunedChoice::source));
  if (untimed > 0 && spent >= options.seconds) {
    context.warn(
        fmt::format("the {} seconds were not enough for {} of {}: give it more --seconds, "
                    "or run it again, which goes on where this stopped",
                    options.seconds, untimed, plural(choices.size(), "kernel")));
  }
  if (context.json) {
    Json document = {
        {"recipes", names}, {"device", to_string(device)},     {"device_name", device.name()},
        {"seconds", spent}, {"folder", kernel_cache_folder()}, {"choices", json_of(choices)}};
    if (!options.export_file.empty()) document["export"] = options.export_file;
    context.print(document);
    return kSuccess;
  }
  context.out << wrapped(
                     printable(fmt::format("{} on {} ({}): {} large enough, {:.1f} s of timing",
                                           fmt::join(names, ", "), to_string(device), device.name(),
                                           plural(choices.size(), "kernel"), spent),
                               context.terminal),
                     context.terminal.columns, 2)
              << '\n';
  print(context, choices);
  return kSuccess;
}

}  // namespace

void add_tune(CLI::App& app, Context& context) {
  const auto options = std::make_shared<TuneOptions>();
  CLI::App* command =
      add_command(app, "tune", "Time the schedules of a recipe's kernels, keep the fastest",
                  "volta tune\n"
                  "volta tune char-gpt digits-cnn --device cuda --seconds 300\n"
                  "volta tune char-gpt --amp --export h200.def");
  command->add_option("RECIPE", options->recipes, "As of volta train --list; default digits-cnn");
  command->add_option("--device", options->device, "cuda:0, opencl:0, best");
  command->add_option("--seconds", options->seconds, "For compiling and timing, at most")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Training steps of each recipe")
      ->check(whole_number(1, kMaxSteps))
      ->capture_default_str();
  command
      ->add_option("--export", options->export_file,
                   "Write what was timed on this machine as lines of shipped_choices.def")
      ->type_name("FILE");
  command->add_flag("--force", options->force, "Replace the exported file");
  options->settings.add_to(*command, {"data", "batch", "amp", "seed"});
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_tune(context, *options); });
}

}  // namespace volta::cli
