// volta profile: shows where the time of a recipe's training goes: kernels and library calls with
// their share of the device's peak, copies, and the host. It can also write a trace.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "output/table.h"
#include "output/units.h"
#include "output_file.h"
#include "train/recipe_options.h"
#include "train/step_runner.h"
#include "volta/profiler.h"

namespace volta::cli {
namespace {

constexpr std::int64_t kMaxRows = 1'000'000;

struct ProfileOptions {
  RecipeOptions what;
  std::string trace;
  std::int64_t steps = 50, warmup = 5, top = 15;
  bool force = false;
};

struct Profiled {
  Profile profile;
  double seconds = 0;  // time of the same steps without a profiler
  std::int64_t units = 0;
  const char* unit = "";
};

using Clock = std::chrono::steady_clock;

// Runs the steps first without a profiler, then with one.
Profiled profile(StepRunner& runner, std::int64_t warmup, std::int64_t steps) {
  Profiled result;
  result.unit = runner.unit();
  runner.train(warmup);
  const auto start = Clock::now();
  result.units = runner.train(steps);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Profiler profiler;
  runner.train(steps);
  result.profile = profiler.stop();
  return result;
}

bool is_device_work(const ProfileRow& row) { return row.kind != "host" && row.kind != "range"; }

double per_second(std::uint64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0;
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); }

Json json_of(const Profiled& all, std::int64_t steps, Device device) {
  Json rows = Json::array();
  for (const ProfileRow& row : all.profile.rows) {
    const bool device_work = is_device_work(row);
    rows.push_back(
        {{"kind", row.kind},
         {"what", row.what},
         {"device", device_work ? Json(to_string(row.device)) : Json()},
         {"calls", row.calls},
         {"seconds", row.seconds},
         {"share", row.share},
         {"bytes", row.bytes},
         {"operations", row.operations},
         {"bound_by", device_work ? Json(row.memory_bound ? "memory" : "arithmetic") : Json()},
         {"peak_share", row.peak_share > 0 ? Json(row.peak_share) : Json()}});
  }
  std::uint64_t peak = 0;
  for (const ProfileMemory& sample : all.profile.memory) {
    if (sample.device == device) peak = std::max(peak, sample.in_use);
  }
  return {{"steps", steps},
          {"seconds_per_step", all.seconds / static_cast<double>(steps)},
          {"profiled_seconds_per_step", all.profile.seconds / static_cast<double>(steps)},
          {"busy_seconds_per_step", all.profile.busy_seconds(device) / static_cast<double>(steps)},
          {"peak_memory", peak},
          {"dropped", all.profile.dropped},
          {"rows", std::move(rows)}};
}

void print_totals(const Context& context, const Profiled& all, std::int64_t steps, Device device) {
  const auto count = static_cast<double>(steps);
  const double step = all.profile.seconds / count, busy = all.profile.busy_seconds(device) / count;
  Table table({{.title = "", .importance = 1, .shortens = true},
               {.title = "", .align = Align::right, .importance = 2}});
  table.add({"a step", milliseconds(all.seconds / count)});
  table.add({fmt::format("{} a second", all.unit),
             human_count(static_cast<std::uint64_t>(
                 per_second(static_cast<std::uint64_t>(all.units), all.seconds)))});
  table.add({"with the profiler", milliseconds(step)});
  table.add({fmt::format("{} at work", to_string(device)),
             fmt::format("{} ({:.0f}%)", milliseconds(busy), step > 0 ? 100 * busy / step : 0)});
  table.print(context.out, context.terminal);
}

void print_rows(const Context& context, const Profiled& all, const ProfileOptions& options) {
  constexpr std::ptrdiff_t kPeak = 5;
  std::vector<Column> columns = {{.title = "time", .align = Align::right, .importance = 6},
                                 {.title = "share", .align = Align::right, .importance = 5},
                                 {.title = "calls", .align = Align::right, .importance = 2},
                                 {.title = "memory", .align = Align::right, .importance = 1},
                                 {.title = "arithmetic", .align = Align::right, .importance = 1},
                                 {.title = "kind", .importance = 4},
                                 {.title = "what", .importance = 7, .shortens = true}};
  const bool peak_known = std::ranges::any_of(all.profile.rows, [](const ProfileRow& row) {
    return is_device_work(row) && row.peak_share > 0;
  });
  if (peak_known)
    columns.insert(columns.begin() + kPeak,
                   {.title = "peak", .align = Align::right, .importance = 3});
  Table table(columns);
  const auto add = [&](std::vector<std::string> cells, std::string peak) {
    if (peak_known) cells.insert(cells.begin() + kPeak, std::move(peak));
    table.add(std::move(cells));
  };
  const auto steps = static_cast<double>(options.steps);
  std::int64_t shown = 0;
  std::uint64_t others = 0;
  double rest = 0, rest_share = 0;
  for (const ProfileRow& row : all.profile.rows) {
    if (!is_device_work(row)) continue;
    if (shown++ >= options.top) {
      ++others;
      rest += row.seconds;
      rest_share += row.share;
      continue;
    }
    add({milliseconds(row.seconds / steps), fmt::format("{:.1f}%", 100 * row.share),
         fmt::format("{:.4g}", static_cast<double>(row.calls) / steps),
         human_rate(per_second(row.bytes, row.seconds), "B"),
         human_rate(per_second(row.operations, row.seconds), "op"), row.kind, row.what},
        row.peak_share > 0
            ? fmt::format("{:.0f}% {}", 100 * row.peak_share, row.memory_bound ? "m" : "a")
            : "");
  }
  if (others > 0) {
    add({milliseconds(rest / steps), fmt::format("{:.1f}%", 100 * rest_share), "", "", "", "",
         plural(others, "other")},
        "");
  }
  context.out << '\n';
  table.print(context.out, context.terminal);
}

void print_host(const Context& context, const Profiled& all, std::int64_t steps) {
  Table table({{.title = "program", .importance = 2, .shortens = true},
               {.title = "a step", .align = Align::right, .importance = 3},
               {.title = "share", .align = Align::right, .importance = 1}});
  for (const ProfileRow& row : all.profile.rows) {
    if (row.kind != "host") continue;
    table.add({row.what, milliseconds(row.seconds / static_cast<double>(steps)),
               fmt::format("{:.1f}%", 100 * row.share)});
  }
  if (table.empty()) return;
  context.out << '\n';
  table.print(context.out, context.terminal);
}

int run_profile(const Context& context, const ProfileOptions& options) {
  const ChosenRecipe chosen(options.what);
  if (!options.trace.empty()) check_output(options.trace, options.force);  // before minutes of work
  StepRunner training(chosen.recipe, chosen.settings, chosen.device);
  const Profiled all = profile(training, options.warmup, options.steps);
  if (!options.trace.empty()) all.profile.save_trace(options.trace);
  if (all.profile.dropped > 0) {
    context.warn(fmt::format(
        "{} more than the profiler keeps are missing from the rows and the trace: take fewer "
        "--steps than {}",
        plural(all.profile.dropped, "event"), options.steps));
  }
  if (context.json) {
    Json document = chosen.json();
    document.update(json_of(all, options.steps, chosen.device));
    if (!options.trace.empty()) document["trace"] = options.trace;
    context.print(document);
    return kSuccess;
  }
  chosen.print_heading(context, plural(static_cast<std::uint64_t>(options.steps), "training step"));
  print_totals(context, all, options.steps, chosen.device);
  print_rows(context, all, options);
  print_host(context, all, options.steps);
  if (!options.trace.empty() && !context.quiet) {
    context.err << printable(fmt::format("trace: {} (open it in ui.perfetto.dev or "
                                         "chrome://tracing)",
                                         options.trace),
                             context.err_terminal)
                << '\n';
  }
  return kSuccess;
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ProfileOptions>();
  CLI::App* command =
      add_command(app, "profile", "Show what the time of a recipe's training goes into",
                  "volta profile digits-cnn\n"
                  "volta profile char-gpt --device cuda --amp --trace trace.json\n"
                  "volta profile mlp --steps 200 --json | jq '.rows[0]'");
  options->what.add_recipe(*command);
  options->what.add_device(*command);
  command->add_option("--steps", options->steps, "To profile; as many before them without")
      ->check(whole_number(1, kMaxSteps))
      ->capture_default_str();
  command->add_option("--warmup", options->warmup, "Steps before, in which plans are made")
      ->check(whole_number(0, kMaxSteps))
      ->capture_default_str();
  command->add_option("--top", options->top, "Rows to show")
      ->check(whole_number(1, kMaxRows))
      ->capture_default_str();
  command
      ->add_option("--trace", options->trace,
                   "Write every event to a file in Chrome's trace format")
      ->type_name("FILE");
  command->add_flag("--force", options->force, "Replace the trace");
  options->what.settings.add_to(*command, {"data", "batch", "amp", "seed"});
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_profile(context, *options); });
}

}  // namespace volta::cli
