#include "train/run_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/run_charts.h"
#include "train/shell_word.h"

namespace volta::cli {
namespace {

void add_files(report::ReportData& data, const RunFolder& folder) {
  std::error_code error;
  for (const char* name : {"last.safetensors", "best.safetensors", "metrics.jsonl"}) {
    const auto bytes = std::filesystem::file_size(folder.path() / name, error);
    if (!error) data.files.push_back({name, bytes, ""});
  }
}

void add_commands(report::ReportData& data, const TrainRun& run, bool has_checkpoint) {
  const std::string folder = shell_word(run.folder.path().string());
  if (has_checkpoint) data.commands.push_back({"Go on", "volta train --resume " + folder});
  std::error_code error;
  if (!std::filesystem::exists(run.folder.best(), error)) return;
  data.commands.push_back({"Evaluate", "volta eval " + folder});
  if (run.recipe.text) data.commands.push_back({"Write text", "volta generate " + folder});
}

}  // namespace

report::ReportData report_data(const TrainRun& run, Task& task, const Evaluation& evaluation,
                               const RunProgress& progress, report::Status status) {
  report::ReportData data;
  data.recipe = data.title = run.recipe.name;
  data.command_line = run.command_line;
  data.device = fmt::format("{} ({})", to_string(run.device), run.device.name());
  data.version = version();
  data.date = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  data.status = std::move(status);
  data.totals.steps = progress.steps;
  data.totals.epochs =
      static_cast<double>(progress.steps) / static_cast<double>(task.loader().size());
  data.totals.seconds = progress.seconds;
  data.totals.best = progress.best;
  for (const Setting& setting : run.settings.all())
    data.config.push_back({setting.name, setting.value});
  ChartSeries series;
  run.folder.read_metrics(
      [&](const Json& metric, std::string_view /*line*/) { series.add(metric); });
  data.charts = series.charts(task.unit());
  data.confusion = evaluation.confusion;
  data.images = evaluation.images;
  data.texts = evaluation.texts;
  data.model = task.summary();
  add_files(data, run.folder);
  add_commands(data, run, progress.has_checkpoint);
  return data;
}

}  // namespace volta::cli
