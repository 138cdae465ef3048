// Collapsible details: the model's layers, the kernels of a step, settings, files.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "report/markup.h"
#include "report/sections.h"
#include "volta/shape.h"

namespace volta::report {
namespace {

constexpr std::size_t kMostRows = 250;  // limit for each table
constexpr std::size_t kCellCharacters = 300;

std::string folded(const std::string& name, const std::string& note, const std::string& inside) {
  return fmt::format(
      "<details class=\"card\"><summary>{} <span>{}</span></summary><div "
      "class=\"inside\">\n{}</div></details>\n",
      name, note, inside);
}

std::string left_out(std::size_t rows) {
  return rows > kMostRows
             ? "<p class=\"note\">" + count_of(rows - kMostRows, "more row") + " left out.</p>\n"
             : "";
}

std::string model_markup(const nn::Summary& model) {
  if (model.rows.empty()) return "";
  std::string out =
      R"(<div class="scroll"><table class="list"><tr><th>layer</th><th>class</th><th>output</th><th class="n">parameters</th><th class="n">operations</th></tr>)"
      "\n";
  for (std::size_t i = 0; i < std::min(model.rows.size(), kMostRows); ++i) {
    const nn::Summary::Row& row = model.rows[i];
    std::string outputs;
    for (const Shape& shape : row.outputs)
      outputs += (outputs.empty() ? "" : " ") + to_string(shape);
    out +=
        fmt::format(
            R"(<tr><td class="key" style="padding-left:{}px">{}</td><td class="key">{}</td><td>{}</td><td class="n">{}</td><td class="n">{}</td></tr>)",
            16 * std::clamp(row.depth, 0, 8),
            row.name.empty() ? "<span class=\"soft\">whole model</span>"
                             : shortened(row.name, kCellCharacters),
            shortened(row.kind, kCellCharacters), outputs.empty() ? "–" : outputs,
            row.parameters == 0 ? "–" : grouped(row.parameters),
            row.operations == 0 ? "–" : prefixed(static_cast<double>(row.operations), "")) +
        "\n";
  }
  out += "</table></div>\n" + left_out(model.rows.size());
  if (!model.strays.empty()) {
    std::string names;
    for (const std::string& stray : model.strays)
      names += (names.empty() ? "" : ", ") + shortened(stray, 80);
    out +=
        "<p class=\"note\"><i class=\"mark\"></i>Called but never added to the model, so not "
        "trained: " +
        names + ".</p>\n";
  }
  return folded("Model",
                fmt::format("{} parameters, {}, {} operations forward", grouped(model.parameters),
                            prefixed(static_cast<double>(model.bytes), "B"),
                            prefixed(static_cast<double>(model.operations), "")),
                out);
}

std::string plan_markup(const Explanation& plan) {
  if (plan.steps.empty()) return "";
  double seconds = 0;
  std::uint64_t bytes = 0, operations = 0;
  std::size_t kernels = 0;
  for (const StepInfo& step : plan.steps) {
    seconds += step.seconds;
    bytes += step.bytes_read + step.bytes_written;
    operations += step.operations;
    kernels += step.kind == "kernel" ? 1 : 0;
  }
  const bool timed = seconds > 0;
  std::string out =
      R"(<div class="scroll"><table class="list"><tr><th class="n">#</th><th>kind</th><th>operations in it</th><th>schedule</th><th class="n">bytes</th><th class="n">operations</th>)";
  if (timed)
    out += R"(<th class="n">predicted</th><th>share of the time</th><th class="n">of peak</th>)";
  out += "</tr>\n";
  for (std::size_t i = 0; i < std::min(plan.steps.size(), kMostRows); ++i) {
    const StepInfo& step = plan.steps[i];
    out += fmt::format(
        R"(<tr><td class="n soft">{}</td><td>{}</td><td class="wide">{}</td><td>{}</td><td class="n">{}</td><td class="n">{}</td>)",
        i + 1, shortened(step.kind, 40),
        step.what.empty() ? "–" : shortened(step.what, kCellCharacters),
        shortened(step.schedule, 80),
        prefixed(static_cast<double>(step.bytes_read + step.bytes_written), "B"),
        prefixed(static_cast<double>(step.operations), ""));
    if (timed) {
      const double share = 100 * step.seconds / seconds;
      out += fmt::format(
          R"(<td class="n">{}</td><td class="n"><span class="bar"><i style="--w:{:.1f}"></i></span>{:.1f}%</td><td class="n">{:.0f}%</td>)",
          duration(step.seconds), share, share, 100 * step.peak_share);
    }
    out += "</tr>\n";
  }
  out += "</table></div>\n" + left_out(plan.steps.size());
  std::string note = fmt::format("{}, {}, {} moved, {} operations", count_of(kernels, "kernel"),
                                 count_of(plan.steps.size() - kernels, "library call"),
                                 prefixed(static_cast<double>(bytes), "B"),
                                 prefixed(static_cast<double>(operations), ""));
  if (timed) note += ", " + duration(seconds) + " predicted";
  return folded("A training step's kernels", note, out);
}

std::string config_markup(const std::vector<Setting>& config) {
  if (config.empty()) return "";
  std::string out = "<div class=\"scroll\"><table class=\"list pairs\">\n";
  for (std::size_t i = 0; i < std::min(config.size(), kMostRows); ++i) {
    const Setting& setting = config[i];
    out += fmt::format(R"(<tr><td class="key soft">{}</td><td class="value">{}</td></tr>)",
                       shortened(setting.key, kCellCharacters),
                       shortened(setting.value, kCellCharacters)) +
           "\n";
  }
  return folded("Configuration", count_of(config.size(), "setting"),
                out + "</table></div>\n" + left_out(config.size()));
}

std::string files_markup(const std::vector<File>& files) {
  if (files.empty()) return "";
  double bytes = 0;
  std::string out = "<div class=\"scroll\"><table class=\"list pairs\">\n";
  for (std::size_t i = 0; i < files.size(); ++i) {
    bytes += static_cast<double>(files[i].bytes);
    if (i >= kMostRows) continue;
    out +=
        fmt::format(
            R"(<tr><td class="key"><code>{}</code></td><td class="value soft">{}</td><td class="n">{}</td></tr>)",
            shortened(files[i].name, kCellCharacters), shortened(files[i].what, kCellCharacters),
            prefixed(static_cast<double>(files[i].bytes), "B")) +
        "\n";
  }
  return folded("Files of the run", count_of(files.size(), "file") + ", " + prefixed(bytes, "B"),
                out + "</table></div>\n" + left_out(files.size()));
}

}  // namespace

std::string details_markup(const ReportData& data) {
  const std::string details = model_markup(data.model) + plan_markup(data.plan) +
                              config_markup(data.config) + files_markup(data.files);
  return details.empty() ? "" : "<section><h2>Details</h2>\n" + details + "</section>\n";
}

}  // namespace volta::report
