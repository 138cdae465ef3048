// volta eval: evaluates a trained model on held-out data.
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "output/table.h"
#include "output/units.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/setting_options.h"
#include "volta/random.h"

namespace volta::cli {
namespace {

struct EvalOptions {
  std::string run, recipe, checkpoint = "best";
  std::optional<std::string> device;
  std::int64_t batch = 0;
  SettingOptions settings;
};

struct Chosen {
  const Recipe& recipe;
  Settings settings;
  std::string checkpoint;  // path of a file
  Device device;
  Json config;  // configuration of the run
};

Chosen chosen(const EvalOptions& options) {
  if (options.run.empty() == options.recipe.empty()) {
    throw UsageError(
        options.run.empty()
            ? "name the folder of a run, or --recipe NAME with --checkpoint FILE"
            : "the folder of a run names its recipe: leave --recipe out, or the folder");
  }
  if (options.recipe.empty()) {
    const RunFolder folder = RunFolder::open(options.run);
    RunConfig config = read_run(folder);
    const Device device = device_of(config, options.device);
    return {config.recipe, std::move(config.settings), checkpoint_file(folder, options.checkpoint),
            device, std::move(config.json)};
  }
  const Recipe& recipe = find_recipe(options.recipe);
  if (options.checkpoint == "best" || options.checkpoint == "last")
    throw UsageError("with --recipe, --checkpoint must name a file of weights");
  return {recipe, recipe.all_settings(), options.checkpoint,
          Device::parse(options.device.value_or("best")), Json::object()};
}

// Precision and recall of a class.
struct ClassScore {
  std::string label;
  std::uint64_t examples = 0, guessed = 0, right = 0;

  // Without examples there is no share.
  static std::optional<double> share(std::uint64_t part, std::uint64_t whole) {
    if (whole == 0) return std::nullopt;
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }
  std::optional<double> precision() const { return share(right, guessed); }
  std::optional<double> recall() const { return share(right, examples); }
};

std::vector<ClassScore> scores_of(const report::Confusion& confusion) {
  const std::size_t classes = confusion.labels.size();
  std::vector<ClassScore> scores;
  for (std::size_t i = 0; i < classes; ++i) {
    ClassScore score{.label = confusion.labels[i]};
    for (std::size_t j = 0; j < classes; ++j) {
      score.examples += confusion.counts[i * classes + j];
      score.guessed += confusion.counts[j * classes + i];
    }
    score.right = confusion.counts[i * classes + i];
    scores.push_back(std::move(score));
  }
  return scores;
}

Json json_of(const report::Confusion& confusion) {
  Json classes = Json::array(), rows = Json::array();
  const auto number = [](std::optional<double> share) { return share ? Json(*share) : Json(); };
  for (const ClassScore& score : scores_of(confusion)) {
    classes.push_back({{"label", score.label},
                       {"examples", score.examples},
                       {"precision", number(score.precision())},
                       {"recall", number(score.recall())}});
  }
  const std::size_t count = confusion.labels.size();
  for (std::size_t i = 0; i < count; ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < count; ++j) row.push_back(confusion.counts[i * count + j]);
    rows.push_back(std::move(row));
  }
  return {{"classes", std::move(classes)}, {"confusion", std::move(rows)}};
}

void print_text(const Context& context, const Evaluation& evaluation) {
  Table metrics({{.title = "metric", .importance = 2, .shortens = true},
                 {.title = "value", .align = Align::right, .importance = 3}});
  for (const report::Metric& metric : evaluation.metrics)
    metrics.add({metric.name, human_number(metric.value) + metric.unit});
  metrics.print(context.out, context.terminal);
  if (!evaluation.confusion) return;
  Table classes({{.title = "class", .importance = 4, .shortens = true},
                 {.title = "precision", .align = Align::right, .importance = 2},
                 {.title = "recall", .align = Align::right, .importance = 3},
                 {.title = "examples", .align = Align::right, .importance = 1}});
  const auto percent = [](std::optional<double> share) {
    return share ? fmt::format("{:.2f}%", *share) : std::string("-");
  };
  for (const ClassScore& score : scores_of(*evaluation.confusion)) {
    classes.add({score.label, percent(score.precision()), percent(score.recall()),
                 human_count(score.examples)});
  }
  context.out << '\n';
  classes.print(context.out, context.terminal);
}

int run_eval(const Context& context, const EvalOptions& options) {
  Chosen what = chosen(options);
  options.settings.apply(what.settings);
  const Device device = what.device;
  // The seed only affects the initial weights, which are then replaced by the loaded ones.
  manual_seed(static_cast<std::uint64_t>(what.settings.integer("seed")));
  const std::unique_ptr<Task> task = what.recipe.make(what.settings, device, what.config);
  const std::optional<std::int64_t> step =
      load_weights(task->model(), what.checkpoint, what.recipe.name);
  const auto start = std::chrono::steady_clock::now();
  const Evaluation evaluation = task->evaluate({.batch = options.batch});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (!context.json) {
    if (!context.quiet) {
      std::string line = fmt::format("{} of {}", what.checkpoint, what.recipe.name);
      if (step) line += fmt::format(", step {}", human_count(static_cast<std::uint64_t>(*step)));
      line += fmt::format(", on {}", to_string(device));
      context.out << wrapped(printable(line, context.terminal), context.terminal.columns, 2)
                  << '\n';
    }
    print_text(context, evaluation);
    return kSuccess;
  }
  Json metrics = Json::object();
  for (const report::Metric& metric : evaluation.metrics)
    metrics[metric.name] = json_number(metric.value);
  Json document = {{"recipe", what.recipe.name},          {"checkpoint", what.checkpoint},
                   {"step", step ? Json(*step) : Json()}, {"device", to_string(device)},
                   {"seconds", passed.count()},           {"metrics", std::move(metrics)}};
  if (evaluation.confusion) document.update(json_of(*evaluation.confusion));
  context.print(document);
  return kSuccess;
}

}  // namespace

void add_eval(CLI::App& app, Context& context) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* command =
      add_command(app, "eval", "Evaluate a trained model on its held-out data",
                  "volta eval runs/digits-cnn-20261116-091500\n"
                  "volta eval runs/wide --checkpoint last --json | jq .metrics\n"
                  "volta eval --recipe digits-cnn --checkpoint weights.pt --data mnist/");
  command->add_option("RUN", options->run, "The folder of a run, or its name in runs/");
  command->add_option("--recipe", options->recipe, "Without a run: what the weights are of");
  command->add_option("--checkpoint", options->checkpoint, "best, last, or a file; default best");
  command->add_option("--device", options->device,
                      "cpu, cuda:0, opencl:0, best; default: the run's");
  command->add_option("--batch", options->batch, "Examples at a time; default as in training")
      ->check(whole_number(1, static_cast<std::int64_t>(kMaxBatch)));
  options->settings.add_to(*command, {"data"});
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_eval(context, *options); });
}

}  // namespace volta::cli
