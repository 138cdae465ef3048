// The page: a headline, key figures, charts, what the model gets wrong, and details to unfold. It
// is written so that an XML parser takes it as well: every tag is closed, every attribute quoted.
#include "cli/report/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/report/chart.h"
#include "cli/report/markup.h"
#include "cli/report/page_assets.h"
#include "io/png_write.h"
#include "volta/error.h"

namespace volta::report {
namespace {

// What bounds the page's size, whatever the run.
constexpr int kPoints = 16'000;  // of all lines together
constexpr int kMostColumns = 400;
constexpr int kFewestColumns = 50;
constexpr std::size_t kMostCharts = 48;
constexpr std::size_t kMostSeries = 24;  // of a chart
constexpr std::size_t kMatrixClasses = 20;
constexpr std::size_t kPairs = 15;
constexpr std::size_t kMostImages = 60;
constexpr double kImageBytes = 240e3;  // of all together, before they are written as text
constexpr std::uint32_t kLargestSide = 128;
constexpr std::size_t kTextCharacters = 6'000;
constexpr std::size_t kMostTexts = 8;
constexpr std::size_t kMostRows = 250;  // of a table
constexpr std::size_t kCellCharacters = 300;
constexpr std::size_t kNameCharacters = 100;

std::string count_of(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", grouped(static_cast<std::int64_t>(n)), what, n == 1 ? "" : "s");
}

void check(const ReportData& data) {
  for (const Chart& chart : data.charts) {
    for (const Series& s : chart.series) {
      if (s.x.size() != s.y.size() || (!s.smoothed.empty() && s.smoothed.size() != s.y.size())) {
        throw ArgumentError(
            fmt::format("report: the series {} has {} steps, {} values and {} smoothed values; "
                        "give as many of each",
                        s.name, s.x.size(), s.y.size(), s.smoothed.size()));
      }
    }
  }
  if (data.confusion) {
    const std::size_t n = data.confusion->labels.size();
    if (data.confusion->counts.size() != n * n) {
      throw ArgumentError(
          fmt::format("report: a confusion matrix of {} labels has {} counts; give {}", n,
                      data.confusion->counts.size(), n * n));
    }
  }
  for (const ImageSample& image : data.images) {
    const bool known = image.channels == 1 || image.channels == 3 || image.channels == 4;
    const std::size_t size = std::size_t{image.width} * image.height *
                             static_cast<std::size_t>(std::max(image.channels, 0));
    if (!known || size == 0 || image.pixels.size() != size) {
      throw ArgumentError(
          fmt::format("report: an image of {}x{} with {} channels has {} bytes; give 1, 3 or 4 "
                      "channels and {} bytes",
                      image.width, image.height, image.channels, image.pixels.size(), size));
    }
  }
}

std::string title_of(const ReportData& data) {
  if (!data.title.empty()) return data.title;
  return data.recipe.empty() ? "Training run" : data.recipe;
}

std::string epochs_text(double epochs) {
  return number(epochs) + (epochs == 1 ? " epoch" : " epochs");
}

std::string status_chip(const Status& status) {
  const auto chip = [&](const char* style, const char* text) {
    const std::string at = status.step ? " at step " + grouped(*status.step) : "";
    return fmt::format(R"(<span class="chip{}">{}{}</span>)", style, text,
                       status.state == State::finished ? "" : at);
  };
  switch (status.state) {
    case State::running:
      return chip(" open", "Running");
    case State::finished:
      return chip("", "✓ Finished");
    case State::interrupted:
      return chip(" bad", "Interrupted");
    case State::failed:
      return chip(" bad", "Failed");
  }
  return "";
}

// "97.4% test accuracy after 5 epochs in 1 min 12 s on cpu."
std::string lead_of(const ReportData& data) {
  const Totals& totals = data.totals;
  std::string lead;
  const auto add = [&lead](const char* before, const std::string& text) {
    lead += fmt::format("{}{} <b>{}</b>", lead.empty() ? "" : " ",
                        lead.empty() ? (std::string_view(before) == "on"   ? "On"
                                        : std::string_view(before) == "in" ? "In"
                                                                           : "After")
                                     : before,
                        text);
  };
  if (totals.best) {
    lead = fmt::format("<b>{} {}</b>", quantity(totals.best->value, totals.best->unit),
                       shortened(totals.best->name, kNameCharacters));
  }
  if (totals.epochs)
    add("after", epochs_text(*totals.epochs));
  else if (totals.steps)
    add("after",
        count_of(static_cast<std::size_t>(std::max<std::int64_t>(*totals.steps, 0)), "step"));
  if (totals.seconds) add("in", duration(*totals.seconds));
  if (!data.device.empty()) add("on", shortened(data.device, kNameCharacters));
  return lead.empty() ? "" : "<p class=\"lead\">" + lead + ".</p>\n";
}

std::string header_markup(const ReportData& data) {
  std::string out = "<header>\n<div class=\"over\">" + status_chip(data.status);
  if (!data.recipe.empty() && !data.title.empty())
    out += "<span>" + shortened(data.recipe, 120) + "</span>";
  if (!data.date.empty()) out += "<span>" + shortened(data.date, kNameCharacters) + "</span>";
  out += "</div>\n<h1>" + shortened(title_of(data), 200) + "</h1>\n" + lead_of(data);
  if (!data.status.reason.empty())
    out += R"(<p class="reason">)" + shortened(data.status.reason, kTextCharacters) + "</p>\n";
  return out + "</header>\n";
}

std::string figures_markup(const ReportData& data) {
  std::string out;
  const auto add = [&out](const std::string& name, const std::string& value,
                          const std::string& note, bool best = false) {
    out +=
        fmt::format("<div><dt>{}</dt><dd{}>{}{}</dd></div>\n", name, best ? R"( class="best")" : "",
                    value, note.empty() ? "" : " <small>" + note + "</small>");
  };
  const Totals& totals = data.totals;
  if (totals.best) {
    std::string name = shortened(totals.best->name, kNameCharacters);
    add("Best " + name, quantity(totals.best->value, totals.best->unit),
        totals.best->step ? "at step " + grouped(*totals.best->step) : "", true);
  }
  if (totals.seconds) {
    const bool per_step = totals.steps && *totals.steps > 0;
    add("Training time", duration(*totals.seconds),
        per_step ? duration(*totals.seconds / static_cast<double>(*totals.steps)) + " a step" : "");
  }
  if (totals.samples_per_second) add("Throughput", number(*totals.samples_per_second), "samples/s");
  if (totals.steps)
    add("Steps", grouped(*totals.steps), totals.epochs ? epochs_text(*totals.epochs) : "");
  if (data.model.parameters > 0) {
    const std::int64_t fixed = data.model.parameters - data.model.trainable;
    add("Parameters",
        data.model.parameters < 1'000'000
            ? grouped(data.model.parameters)
            : prefixed(static_cast<double>(data.model.parameters), ""),
        fixed > 0 ? grouped(fixed) + " fixed"
                  : prefixed(static_cast<double>(data.model.bytes), "B"));
  }
  return out.empty() ? "" : "<dl class=\"figures card\">\n" + out + "</dl>\n";
}

std::string charts_markup(const ReportData& data) {
  std::string large, small;
  std::size_t drawn = 0, lines = 0;
  for (const Chart& chart : data.charts) {
    for (const Series& s : chart.series) {
      // A log scale draws everything again.
      lines += (s.smoothed.empty() ? 1u : 2u) * (chart.offer_log ? 2u : 1u);
    }
  }
  const int columns = std::clamp(kPoints / 2 / static_cast<int>(std::max<std::size_t>(lines, 1)),
                                 kFewestColumns, kMostColumns);
  for (const Chart& chart : data.charts) {
    if (drawn == kMostCharts) break;
    std::string& group = chart.minor ? small : large;
    if (chart.series.size() <= kMostSeries) {
      group += chart_markup(chart, static_cast<int>(drawn), columns);
    } else {
      Chart part = chart;
      part.series.resize(kMostSeries);
      part.title += fmt::format(" ({} of {} lines)", kMostSeries, chart.series.size());
      group += chart_markup(part, static_cast<int>(drawn), columns);
    }
    ++drawn;
  }
  if (large.empty() && small.empty()) return "";
  std::string out = "<h2>Curves</h2>\n";
  if (!large.empty()) out += "<div class=\"charts\">\n" + large + "</div>\n";
  if (!small.empty()) out += "<div class=\"charts small\">\n" + small + "</div>\n";
  if (drawn < data.charts.size())
    out += "<p class=\"note\">" + count_of(data.charts.size() - drawn, "more chart") +
           " not drawn.</p>\n";
  return out;
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "–"
                    : fmt::format("{:.1f}%",
                                  100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string matrix_markup(const Confusion& confusion, const std::vector<std::uint64_t>& row_sums) {
  const std::size_t n = confusion.labels.size();
  std::string out = R"(<div class="scroll"><table class="matrix"><tr><th></th>)";
  for (const std::string& label : confusion.labels)
    out += fmt::format(R"(<th scope="col" title="{}">{}</th>)", shortened(label, kNameCharacters),
                       shortened(label, 12));
  out += "<th>right</th></tr>\n";
  for (std::size_t i = 0; i < n; ++i) {
    out += fmt::format(R"(<tr><th class="row" scope="row" title="{}">{}</th>)",
                       shortened(confusion.labels[i], kNameCharacters),
                       shortened(confusion.labels[i], 12));
    for (std::size_t j = 0; j < n; ++j) {
      const std::uint64_t count = confusion.counts[i * n + j];
      const double share =
          row_sums[i] == 0 ? 0 : static_cast<double>(count) / static_cast<double>(row_sums[i]);
      // Few mistakes among many examples should be seen: their colour grows faster.
      const double strength = i == j       ? 0.12 + 0.75 * share
                              : count == 0 ? 0
                                           : std::min(0.9, 0.12 + 2.2 * std::sqrt(share) * 0.6);
      const std::string style = std::string(i == j ? "hit" : "") + (strength > 0.6 ? " full" : "") +
                                (count == 0 ? " none" : "");
      out += fmt::format(R"(<td class="{}" style="--s:{:.2f}">{}</td>)", style,
                         count == 0 ? 0.0 : strength,
                         count == 0 ? "·" : grouped(static_cast<std::int64_t>(count)));
    }
    out += fmt::format(R"(<td class="share">{}</td></tr>)",
                       share_text(confusion.counts[i * n + i], row_sums[i])) +
           "\n";
  }
  return out + "</table></div>\n";
}

// The mistakes made most often, where there are too many classes for a matrix.
std::string pairs_markup(const Confusion& confusion, const std::vector<std::uint64_t>& row_sums) {
  const std::size_t n = confusion.labels.size();
  std::vector<std::size_t> cells;
  for (std::size_t at = 0; at < n * n; ++at) {
    if (at / n != at % n && confusion.counts[at] > 0) cells.push_back(at);
  }
  const std::size_t shown = std::min(cells.size(), kPairs);
  std::partial_sort(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(shown), cells.end(),
                    [&](std::size_t a, std::size_t b) {
                      return std::pair(confusion.counts[b], a) < std::pair(confusion.counts[a], b);
                    });
  if (shown == 0) return "<p class=\"note\">No example was taken for another class.</p>\n";
  std::string out =
      fmt::format("<p class=\"note\">{} classes; the pairs most often confused:</p>\n",
                  grouped(static_cast<std::int64_t>(n))) +
      R"(<div class="scroll"><table class="list"><tr><th>is</th><th>taken for</th><th class="n">times</th><th class="n">of its examples</th></tr>)"
      "\n";
  for (std::size_t k = 0; k < shown; ++k) {
    const std::size_t at = cells[k];
    out +=
        fmt::format(
            R"(<tr><td class="key">{}</td><td class="key">{}</td><td class="n">{}</td><td class="n">{}</td></tr>)",
            shortened(confusion.labels[at / n], 60), shortened(confusion.labels[at % n], 60),
            grouped(static_cast<std::int64_t>(confusion.counts[at])),
            share_text(confusion.counts[at], row_sums[at / n])) +
        "\n";
  }
  return out + "</table></div>\n";
}

std::string confusion_markup(const Confusion& confusion) {
  const std::size_t n = confusion.labels.size();
  if (n == 0) return "";
  std::vector<std::uint64_t> row_sums(n);
  std::uint64_t all = 0, right = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = confusion.counts.begin() + static_cast<std::ptrdiff_t>(i * n);
    row_sums[i] = std::accumulate(row, row + static_cast<std::ptrdiff_t>(n), std::uint64_t{0});
    all += row_sums[i];
    right += confusion.counts[i * n + i];
  }
  std::string out = "<section><h2>What is taken for what</h2>\n";
  if (n <= kMatrixClasses) {
    out += matrix_markup(confusion, row_sums) +
           fmt::format(
               "<p class=\"note\">Rows are the true classes, columns the predictions: {} of {} "
               "right.</p>\n",
               grouped(static_cast<std::int64_t>(right)), grouped(static_cast<std::int64_t>(all)));
  } else {
    out += pairs_markup(confusion, row_sums);
  }
  return out + "</section>\n";
}

// Averages of whole blocks of pixels, so that neither side is longer than that.
ImageSample reduced(const ImageSample& image, std::uint32_t side) {
  const std::uint32_t longest = std::max(image.width, image.height);
  if (longest <= side) return image;
  ImageSample small = image;
  small.width =
      std::max(1u, static_cast<std::uint32_t>(std::uint64_t{image.width} * side / longest));
  small.height =
      std::max(1u, static_cast<std::uint32_t>(std::uint64_t{image.height} * side / longest));
  const auto channels = static_cast<std::size_t>(image.channels);
  small.pixels.assign(std::size_t{small.width} * small.height * channels, 0);
  for (std::size_t y = 0; y < small.height; ++y) {
    const std::size_t top = y * image.height / small.height,
                      bottom = std::max(top + 1, (y + 1) * image.height / small.height);
    for (std::size_t x = 0; x < small.width; ++x) {
      const std::size_t left = x * image.width / small.width,
                        right = std::max(left + 1, (x + 1) * image.width / small.width);
      for (std::size_t c = 0; c < channels; ++c) {
        std::uint64_t sum = 0;
        for (std::size_t v = top; v < bottom; ++v)
          for (std::size_t u = left; u < right; ++u)
            sum += image.pixels[(v * image.width + u) * channels + c];
        small.pixels[(y * small.width + x) * channels + c] =
            static_cast<std::uint8_t>(sum / ((bottom - top) * (right - left)));
      }
    }
  }
  return small;
}

std::string images_markup(const std::vector<ImageSample>& images) {
  if (images.empty()) return "";
  const std::size_t shown = std::min(images.size(), kMostImages);
  int channels = 1;
  for (const ImageSample& image : images) channels = std::max(channels, image.channels);
  const double pixels = kImageBytes / (static_cast<double>(shown) * channels);
  const std::uint32_t side = std::min(kLargestSide, static_cast<std::uint32_t>(std::sqrt(pixels)));
  std::string out = "<section><h2>Examples and predictions</h2>\n<div class=\"samples\">\n";
  std::size_t wrong = 0, judged = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const ImageSample image = reduced(images[i], side);
    const std::string png = io::encode_png(image.pixels, image.width, image.height, image.channels);
    const bool is_judged = !image.label.empty() && !image.predicted.empty();
    const bool is_wrong = is_judged && image.label != image.predicted;
    judged += is_judged ? 1 : 0;
    wrong += is_wrong ? 1 : 0;
    const std::string label = shortened(image.label, 24),
                      predicted = shortened(image.predicted, 24);
    const std::string spoken =
        is_judged ? fmt::format("{}, taken for {}", label, predicted) : label + predicted;
    out += fmt::format(
        R"(<figure class="{}"><img src="data:image/png;base64,{}" width="{}" height="{}" alt="{}" title="{}"/>)",
        is_wrong ? "wrong" : "right", base64(png), image.width, image.height, spoken, spoken);
    const std::string confidence =
        image.confidence
            ? fmt::format(" <small>{:.0f}%</small>", 100 * std::clamp(*image.confidence, 0.0, 1.0))
            : "";
    out += "<span>" +
           (is_wrong            ? "✗ " + predicted
            : predicted.empty() ? label
                                : predicted) +
           confidence + "</span>";
    if (is_wrong) out += "<small>is " + label + "</small>";
    out += "</figure>\n";
  }
  out += "</div>\n";
  std::string note;
  if (shown < images.size())
    note = fmt::format("{} of {}. ", shown, count_of(images.size(), "image"));
  if (judged > 0)
    note +=
        wrong == 0 ? "All are right." : fmt::format("{} of {} wrong, marked by ✗.", wrong, judged);
  if (!note.empty()) out += "<p class=\"note\" style=\"margin-top:12px\">" + note + "</p>\n";
  return out + "</section>\n";
}

std::string texts_markup(const std::vector<TextSample>& texts) {
  if (texts.empty()) return "";
  std::string out = "<section><h2>Generated text</h2>\n";
  // The last ones are the best trained.
  const std::size_t first = texts.size() - std::min(texts.size(), kMostTexts);
  for (std::size_t i = texts.size(); i-- > first;) {
    const TextSample& sample = texts[i];
    out += "<div class=\"text card\"><pre>";
    if (!sample.prompt.empty()) out += "<b>" + shortened(sample.prompt, kTextCharacters) + "</b>";
    out += shortened(sample.text, kTextCharacters) + "</pre>";
    std::string note;
    if (sample.step) note = "Step " + grouped(*sample.step) + ". ";
    const std::size_t size = length(sample.text);
    if (size > kTextCharacters)
      note += "The first " + grouped(kTextCharacters) + " of " + count_of(size, "character") + ".";
    if (!note.empty()) out += "<footer>" + note + "</footer>";
    out += "</div>\n";
  }
  if (first > 0) out += "<p class=\"note\">" + count_of(first, "earlier text") + " left out.</p>\n";
  return out + "</section>\n";
}

std::string commands_markup(const ReportData& data) {
  std::string out;
  const auto add = [&out](const std::string& what, const std::string& line) {
    out += fmt::format(R"(<div class="command card"><span>{}</span><code>{}</code></div>)",
                       shortened(what, 60), escaped(line)) +
           "\n";
  };
  if (!data.command_line.empty()) add("This run", data.command_line);
  for (const Command& command : data.commands) add(command.what, command.line);
  return out.empty() ? "" : "<section><h2>Commands</h2>\n" + out + "</section>\n";
}

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

std::string config_markup(const ReportData& data) {
  if (data.config.empty()) return "";
  std::string out = "<div class=\"scroll\"><table class=\"list pairs\">\n";
  for (std::size_t i = 0; i < std::min(data.config.size(), kMostRows); ++i) {
    const Setting& setting = data.config[i];
    out += fmt::format(R"(<tr><td class="key soft">{}</td><td class="value">{}</td></tr>)",
                       shortened(setting.key, kCellCharacters),
                       shortened(setting.value, kCellCharacters)) +
           "\n";
  }
  return folded("Configuration", count_of(data.config.size(), "setting"),
                out + "</table></div>\n" + left_out(data.config.size()));
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

std::string render(const ReportData& data) {
  check(data);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      // The page asks nobody for anything, whatever is written in it.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<title>" +
      shortened(title_of(data), 120) + " · Volta</title>\n<style>";
  out += kStyle;
  out += "</style>\n</head>\n<body>\n<main>\n";
  out += header_markup(data);
  out += figures_markup(data);
  out += charts_markup(data);
  const std::string confusion = data.confusion ? confusion_markup(*data.confusion) : "";
  const std::string images = images_markup(data.images);
  if (!confusion.empty() && !images.empty())
    out += "<div class=\"side\">\n" + confusion + images + "</div>\n";
  else
    out += confusion + images;
  out += texts_markup(data.texts);
  out += commands_markup(data);
  const std::string details = model_markup(data.model) + plan_markup(data.plan) +
                              config_markup(data) + files_markup(data.files);
  if (!details.empty()) out += "<section><h2>Details</h2>\n" + details + "</section>\n";
  std::string made = "Made by Volta";
  if (!data.version.empty()) made += " " + shortened(data.version, kNameCharacters);
  if (!data.date.empty()) made += ", " + shortened(data.date, kNameCharacters);
  out += "<p class=\"end\">" + made + ".</p>\n</main>\n<script>//<![CDATA[";
  out += kScript;
  out += "//]]></script>\n</body>\n</html>\n";
  return out;
}

std::vector<double> smooth(std::span<const double> values, double keep) {
  std::vector<double> out;
  out.reserve(values.size());
  double sum = 0, weight = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      out.push_back(value);
      continue;
    }
    sum = keep * sum + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    out.push_back(sum / weight);
  }
  return out;
}

}  // namespace volta::report
