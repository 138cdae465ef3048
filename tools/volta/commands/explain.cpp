// volta explain: shows how a recipe's step runs: kernels with the operations fused in each, library
// calls, bytes, memory.
#include <fmt/format.h>

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
#include "train/recipe_options.h"
#include "train/training_step.h"
#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/counters.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/random.h"

namespace volta::cli {
namespace {

struct ExplainOptions {
  RecipeOptions what;
  bool inference = false, results = false;
};

// The work of running the step.
struct Ran {
  std::uint64_t launches = 0, library_calls = 0, peak = 0;
};

struct Explained {
  Explanation plan;
  std::optional<Ran> ran;
  std::int64_t batch = 0;
};

struct Sums {
  std::uint64_t read = 0, written = 0, operations = 0;
  double seconds = 0;
};
Sums sums_of(const Explanation& plan) {
  Sums sums;
  for (const StepInfo& step : plan.steps) {
    sums.read += step.bytes_read;
    sums.written += step.bytes_written;
    sums.operations += step.operations;
    sums.seconds += step.seconds;
  }
  return sums;
}

Explained explained(const Context& context, const ExplainOptions& options,
                    const ChosenRecipe& chosen) {
  const auto& [recipe, settings, device] = chosen;
  manual_seed(static_cast<std::uint64_t>(settings.integer("seed")));
  const std::unique_ptr<Task> task = recipe.make(settings, device);
  TrainingStep step(*task, settings);
  const data::Batch batch = *task->loader().begin();
  Explained result{.plan = {}, .ran = std::nullopt, .batch = batch.x.size(0)};
  // Weights, moments and the batch are computed before, so that only the step remains.
  submit(device);
  synchronize(device);
  std::vector<Tensor> made;
  if (options.inference) {
    task->model().eval();
    const NoGrad no_grad;
    const Autocast amp(settings.flag("amp") ? DType::bf16 : DType::f32);
    made.push_back(task->model()(batch.x));
  } else {
    made = step.record(batch);
  }
  result.plan = explain(made);
  try {
    reset_peak_memory(device);
    const Counters before = counters();
    submit(device);
    synchronize(device);
    const Counters after = counters();
    result.ran = {.launches = after.launches - before.launches,
                  .library_calls = after.library_calls - before.library_calls,
                  .peak = memory_stats(device).peak};
  } catch (const OutOfMemory& error) {
    context.warn(fmt::format("the step was planned but could not be run: {}", error.what()));
  }
  return result;
}

Json json_of(const Explained& all) {
  const Sums sums = sums_of(all.plan);
  Json steps = Json::array(), results = Json::array();
  for (const StepInfo& step : all.plan.steps) {
    steps.push_back({{"kind", step.kind},
                     {"what", step.what},
                     {"schedule", step.schedule},
                     {"bytes_read", step.bytes_read},
                     {"bytes_written", step.bytes_written},
                     {"operations", step.operations},
                     {"bound_by", step.memory_bound ? "memory" : "arithmetic"},
                     {"seconds", step.seconds},
                     {"peak_share", step.peak_share}});
  }
  for (const ResultInfo& result : all.plan.results) {
    results.push_back({{"what", result.what},
                       {"place", result.place},
                       {"memory", result.memory},
                       {"holder", result.holder},
                       {"bytes", result.bytes},
                       {"step", result.step}});
  }
  Json ran;
  if (all.ran) {
    ran = {{"launches", all.ran->launches},
           {"library_calls", all.ran->library_calls},
           {"peak_memory", all.ran->peak}};
  }
  return {{"batch", all.batch},
          {"kernels", all.plan.kernels()},
          {"library_calls", all.plan.library_calls()},
          {"bytes_read", sums.read},
          {"bytes_written", sums.written},
          {"operations", sums.operations},
          {"seconds", sums.seconds},
          {"intermediates", all.plan.arena_bytes},
          {"ran", std::move(ran)},
          {"steps", std::move(steps)},
          {"results", std::move(results)}};
}

std::string human_operations(std::uint64_t operations) {
  std::string rate = human_rate(static_cast<double>(operations), "op");  // "1.2 Gop/s"
  return rate.empty() ? "0 op" : rate.substr(0, rate.size() - 2);
}

void print_totals(const Context& context, const Explained& all) {
  const Sums sums = sums_of(all.plan);
  Table table({{.title = "", .importance = 1, .shortens = true},
               {.title = "", .align = Align::right, .importance = 2}});
  const auto count = [&](const char* what, std::uint64_t value) {
    table.add({what, human_count(value)});
  };
  count("kernels", static_cast<std::uint64_t>(all.plan.kernels()));
  count("library calls", static_cast<std::uint64_t>(all.plan.library_calls()));
  if (all.ran) count("launches", all.ran->launches + all.ran->library_calls);
  table.add({"read", human_bytes(sums.read)});
  table.add({"written", human_bytes(sums.written)});
  table.add({"arithmetic", human_operations(sums.operations)});
  table.add({"intermediates", human_bytes(all.plan.arena_bytes)});
  if (all.ran) table.add({"peak memory", human_bytes(all.ran->peak)});
  if (sums.seconds > 0) table.add({"predicted", fmt::format("{:.3g} ms", 1e3 * sums.seconds)});
  table.print(context.out, context.terminal);
}

void print_steps(const Context& context, const Explanation& plan) {
  const bool timed = sums_of(plan).seconds > 0;
  std::vector<Column> columns = {{.title = "#", .align = Align::right, .importance = 5},
                                 {.title = "kind", .importance = 3},
                                 {.title = "what", .importance = 6, .shortens = true},
                                 {.title = "schedule", .importance = 1},
                                 {.title = "bytes", .align = Align::right, .importance = 4},
                                 {.title = "arithmetic", .align = Align::right, .importance = 2}};
  if (timed) columns.push_back({.title = "predicted", .align = Align::right, .importance = 3});
  Table table(columns);
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const StepInfo& step = plan.steps[i];
    std::vector<std::string> cells = {std::to_string(i + 1),
                                      step.kind,
                                      step.what.empty() ? "copy" : step.what,
                                      step.schedule,
                                      human_bytes(step.bytes_read + step.bytes_written),
                                      human_operations(step.operations)};
    if (timed) cells.push_back(fmt::format("{:.3g} us", 1e6 * step.seconds));
    table.add(std::move(cells));
  }
  context.out << '\n';
  table.print(context.out, context.terminal);
}

void print_results(const Context& context, const Explanation& plan) {
  Table table({{.title = "step", .align = Align::right, .importance = 4},
               {.title = "left in memory", .importance = 5, .shortens = true},
               {.title = "bytes", .align = Align::right, .importance = 3},
               {.title = "memory", .importance = 1, .shortens = true},
               {.title = "for", .importance = 2, .shortens = true},
               {.title = "recorded at", .importance = 0, .shortens = true}});
  for (const ResultInfo& result : plan.results) {
    table.add({result.step == 0 ? "-" : std::to_string(result.step), result.what,
               human_bytes(result.bytes), result.memory, result.holder, result.place});
  }
  context.out << '\n';
  table.print(context.out, context.terminal);
}

int run_explain(const Context& context, const ExplainOptions& options) {
  const ChosenRecipe chosen(options.what);
  const Explained all = explained(context, options, chosen);
  if (context.json) {
    Json document = chosen.json();
    document["step"] = options.inference ? "inference" : "training";
    document.update(json_of(all));
    context.print(document);
    return kSuccess;
  }
  chosen.print_heading(context,
                       fmt::format("{} of {}", options.inference ? "inference" : "a training step",
                                   plural(static_cast<std::uint64_t>(all.batch), "example")));
  print_totals(context, all);
  print_steps(context, all.plan);
  if (options.results) print_results(context, all.plan);
  return kSuccess;
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* command =
      add_command(app, "explain", "Show what a training step becomes: kernels, bytes, memory",
                  "volta explain digits-cnn --device cuda\n"
                  "volta explain char-gpt --batch 64 --amp --results\n"
                  "volta explain mlp --eval --json | jq '.steps[].what'");
  options->what.add_recipe(*command);
  command->add_flag("--eval", options->inference, "The forward pass of a trained model instead");
  command->add_flag("--results", options->results,
                    "Also what the step leaves in memory, for whom, and in whose place");
  options->what.add_device(*command);
  options->what.settings.add_to(*command, {"data", "batch", "amp"});
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_explain(context, *options); });
}

}  // namespace volta::cli
