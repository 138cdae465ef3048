// A chart is an SVG of the size of the plot, with the text of its axes outside. Ticks are placed by
// percentages and keep their size. Lines are in an inner SVG of 1000 x 1000 that is stretched over
// the plot, with strokes that are not stretched. The chart is thus the same at any page width, with
// readable text.
#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "report/markup.h"

namespace volta::report {
namespace {

constexpr int kColors = 8;      // defined in the page's style
constexpr int kFewPoints = 60;  // up to this number, points are marked by dots
constexpr std::size_t kGapNotes = 3;
constexpr double kHeight = 240;  // in pixels
constexpr double kMinorHeight = 120;
constexpr double kAboveSmoothed = 2;  // range of a small chart above the smoothed line, as a factor
constexpr double kBelowSmoothed = 10;  // range of a log scale below the smoothed line, as a factor

// The drawn lines of a series.
struct Line {
  const Series* series = nullptr;
  ThinLine faint;   // the values, if there is a smoothed line
  ThinLine strong;  // the smoothed line, or else the values
  double last = std::numeric_limits<double>::quiet_NaN();
  std::size_t not_finite = 0;
  double first_gap = 0;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

std::span<const double> strong_values(const Series& series) {
  return series.smoothed.empty() ? series.y : series.smoothed;
}

Axis x_axis_of(const Chart& chart) {
  Range range;
  bool whole = true;
  for (const Series& series : chart.series) {
    for (const double x : series.x) {
      range.include(x);
      whole = whole && (!std::isfinite(x) || x == std::floor(x));
    }
  }
  if (range.empty()) return {};
  return tight_axis(range.low, range.high, chart.minor ? 4 : 6, whole);
}

// If the largest value is less than this multiple of the smallest, the axis starts at zero only on
// request.
constexpr double kWideRatio = 1.7;

Axis linear_axis(const Chart& chart, Range range) {
  if (range.low >= 0 && (chart.from_zero || range.high >= kWideRatio * range.low)) range.low = 0;
  Axis axis = round_axis(range.low, range.high, chart.minor ? 3 : 5);
  if (chart.unit == "%" && range.high <= 100 && axis.high > 100) {
    axis.high = 100;
    std::erase_if(axis.ticks, [](double tick) { return tick > 100; });
  }
  return axis;
}

bool in_ticks(std::string_view unit) { return unit == "%" || unit == "B"; }

std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

// Converts a share of the axis to the 1000 units of the lines. Values beyond the axis stay at its
// edge.
std::string position(double share) { return coordinate(1000 * std::clamp(share, 0.0, 1.0)); }

std::string percent(double share) { return coordinate(100 * share) + "%"; }

void add_points(std::string& path, const ThinLine& line, const Axis& x_axis, const Axis& y_axis,
                bool dots) {
  for (const auto& run : line.runs) {
    const char* separator = "M";
    for (const Point& point : run) {
      path += (dots ? "M" : separator) + position(x_axis.share(point.x)) + "," +
              position(1 - y_axis.share(point.y));
      if (dots || run.size() == 1) path += "h0";
      separator = " ";
    }
  }
}

std::size_t points_of(const ThinLine& line) {
  return std::accumulate(line.runs.begin(), line.runs.end(), std::size_t{0},
                         [](std::size_t sum, const auto& run) { return sum + run.size(); });
}

std::string style_of(std::size_t series) {
  const std::size_t dashes = series / kColors;
  return fmt::format("c{}{}", series % kColors,
                     dashes == 0       ? ""
                     : dashes % 2 == 1 ? " dashed"
                                       : " dotted");
}

// The numbers that are shown under the pointer.
std::string point_list(const ThinLine& line) {
  std::string list;
  for (const auto& run : line.runs) {
    for (const Point& point : run)
      fmt::format_to(std::back_inserter(list), "{}{:.8g},{:.5g}", list.empty() ? "" : " ", point.x,
                     point.y);
  }
  return list;
}

struct Label {
  std::size_t series = 0;
  double y = 0;  // pixels from the top
};

// Names at the ends of the lines, moved apart if they would overlap.
std::vector<Label> end_labels(const std::vector<Line>& lines, const Axis& y_axis, double height,
                              double gap) {
  std::vector<Label> labels;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (std::isfinite(lines[i].last))
      labels.push_back({.series = i, .y = height * (1 - y_axis.share(lines[i].last))});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const Label& a, const Label& b) { return a.y < b.y; });
  gap = std::min(gap, height / static_cast<double>(std::max<std::size_t>(labels.size(), 1)));
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + gap);
  for (std::size_t i = labels.size(); i-- > 0;)
    labels[i].y = std::min(labels[i].y, height - gap * static_cast<double>(labels.size() - 1 - i));
  return labels;
}

bool has_end_labels(const Chart& chart) { return !chart.minor && chart.series.size() > 1; }

// The grid, the ticks of both axes and their names.
std::string axes_markup(const Chart& chart, const Axis& x_axis, const Axis& y_axis, double height) {
  std::string out = R"(<g class="grid">)";
  for (const double tick : y_axis.ticks) {
    const std::string y = percent(1 - y_axis.share(tick));
    out += fmt::format(R"(<line x1="0" x2="100%" y1="{0}" y2="{0}"/>)", y);
  }
  out += R"(</g><g class="ticks y">)";
  std::vector<std::string> texts = tick_labels(y_axis, chart.unit);
  for (std::size_t i = 0; i < texts.size(); ++i)
    out += fmt::format(R"(<text x="-8" y="{}" dy=".34em">{}</text>)",
                       percent(1 - y_axis.share(y_axis.ticks[i])), texts[i]);
  out += R"(</g><g class="ticks x">)";
  texts = tick_labels(x_axis, "");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    out += fmt::format(
        R"(<line x1="{0}" x2="{0}" y1="{1}" y2="{2}"/><text x="{0}" y="{1}" dy="1.6em">{3}</text>)",
        percent(x_axis.share(x_axis.ticks[i])), height, height + 4, texts[i]);
  }
  out += fmt::format(
      R"(</g><text class="axis" x="100%" y="{}" dy="2.9em" text-anchor="end">{}</text>)", height,
      shortened(chart.x_label, 40));
  // The title names the quantity; the axis names the unit unless the ticks do.
  std::string y_label = in_ticks(chart.unit) ? "" : shortened(chart.unit, 20);
  if (y_axis.log) y_label += y_label.empty() ? "log scale" : ", log scale";
  if (!y_label.empty())
    out += fmt::format(R"(<text class="axis" x="0" y="0" dy="-.9em">{}</text>)", y_label);
  return out;
}

// Faint lines below strong ones, with dots where there are few points and marks where some are
// missing.
std::string lines_markup(const std::vector<Line>& lines, const Axis& x_axis, const Axis& y_axis) {
  std::string out =
      R"(<svg class="lines" viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">)";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::string style = style_of(i);
    std::string path;
    add_points(path, line.faint, x_axis, y_axis, false);
    if (!path.empty()) out += fmt::format(R"(<path class="faint {}" d="{}"/>)", style, path);
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    const std::string style = style_of(i);
    std::string path;
    add_points(path, line.strong, x_axis, y_axis, false);
    std::string data;
    if (!y_axis.log) {  // the linear view only, since once is enough
      data =
          fmt::format(R"( data-name="{}{}" data-points="{}")", shortened(line.series->name, 60),
                      line.series->smoothed.empty() ? "" : " (smoothed)", point_list(line.strong));
    }
    out += fmt::format(R"(<path class="line {}" d="{}"{}/>)", style, path, data);
    if (points_of(line.strong) <= kFewPoints) {
      path.clear();
      add_points(path, line.strong, x_axis, y_axis, true);
      if (!path.empty()) out += fmt::format(R"(<path class="dots {}" d="{}"/>)", style, path);
    }
    path.clear();
    const ThinLine& marked = line.series->smoothed.empty() ? line.strong : line.faint;
    for (const double x : marked.gaps) path += "M" + position(x_axis.share(x)) + ",1000v-40";
    if (!path.empty()) out += fmt::format(R"(<path class="gaps" d="{}"/>)", path);
  }
  return out + "</svg>";
}

// The names of the lines at their right ends, with the last values where there is room.
std::string end_label_markup(const Chart& chart, const std::vector<Line>& lines, const Axis& y_axis,
                             double height) {
  const bool values = lines.size() <= 4;
  std::string out = R"(<g class="names">)";
  for (const Label& label : end_labels(lines, y_axis, height, values ? 32 : 15)) {
    const Line& line = lines[label.series];
    out += fmt::format(
        R"(<text class="{}" x="100%" dx="10" y="{}" dy=".34em">{}<title>{}</title></text>)",
        style_of(label.series), coordinate(label.y), shortened(line.series->name, 14),
        shortened(line.series->name, 60));
    if (values) {
      out += fmt::format(R"(<text class="value" x="100%" dx="10" y="{}" dy="1.5em">{}</text>)",
                         coordinate(label.y), quantity(line.last, chart.unit));
    }
  }
  return out + "</g>";
}

std::string view_markup(const Chart& chart, const std::vector<Line>& lines, const Axis& x_axis,
                        const Axis& y_axis) {
  const double height = chart.minor ? kMinorHeight : kHeight;
  std::string spoken;
  for (const Line& line : lines) {
    spoken += fmt::format("; {}: {} at last", shortened(line.series->name, 40),
                          quantity(line.last, chart.unit));
  }
  std::string out =
      fmt::format(R"(<svg class="{}" width="100%" height="{}" role="img" aria-label="{} by {}{}">)",
                  y_axis.log ? "log" : "linear", height, shortened(chart.title, 80),
                  shortened(chart.x_label, 40), spoken);
  out += axes_markup(chart, x_axis, y_axis, height);
  out += lines_markup(lines, x_axis, y_axis);
  if (has_end_labels(chart)) out += end_label_markup(chart, lines, y_axis, height);
  return out + "</svg>";
}

std::string legend_markup(const Chart& chart, const std::vector<Line>& lines) {
  if (lines.size() < 2) return "";
  std::string out = fmt::format(R"(<ul class="legend{}">)", has_end_labels(chart) ? " narrow" : "");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += fmt::format(R"(<li class="{}"><i></i>{} <b>{}</b></li>)", style_of(i),
                       shortened(lines[i].series->name, 40), quantity(lines[i].last, chart.unit));
  }
  return out + "</ul>";
}

std::string gap_notes(const Chart& chart, const std::vector<Line>& lines) {
  std::string out;
  std::size_t noted = 0;
  for (const Line& line : lines) {
    if (line.not_finite == 0 || ++noted > kGapNotes) continue;
    out += fmt::format(
        R"(<p class="note"><i class="mark"></i>{} of {} values of {} {} not finite, the first at {} {}.</p>)",
        grouped(static_cast<std::int64_t>(line.not_finite)),
        grouped(static_cast<std::int64_t>(line.series->y.size())), shortened(line.series->name, 40),
        line.not_finite == 1 ? "is" : "are", shortened(chart.x_label, 40), number(line.first_gap));
  }
  if (noted > kGapNotes)
    out += fmt::format(R"(<p class="note">The same in {} more lines.</p>)", noted - kGapNotes);
  return out;
}

}  // namespace

ThinLine thinned(std::span<const double> x, std::span<const double> y, const Axis& x_axis,
                 int columns) {
  ThinLine line;
  const bool every_point = x.size() <= 2 * static_cast<std::size_t>(columns);
  std::size_t i = 0;
  bool broken = true;  // the next point begins a new run
  while (i < x.size()) {
    // The points of one column are those from i to end.
    const auto column_of = [&](std::size_t at) {
      return std::floor(x_axis.share(x[at]) * columns);
    };
    std::size_t end = i + 1;
    if (!every_point) {
      while (end < x.size() && column_of(end) == column_of(i)) ++end;
    }
    std::size_t low = end, high = end;
    bool gap = false;
    for (std::size_t at = i; at < end; ++at) {
      if (!std::isfinite(x[at])) continue;
      if (!std::isfinite(y[at])) {
        if (!gap) line.gaps.push_back(x[at]);
        gap = true;
        broken = broken || low == end;
      } else {
        if (low == end || y[at] < y[low]) low = at;
        if (high == end || y[at] > y[high]) high = at;
      }
    }
    if (low != end) {
      if (broken) line.runs.emplace_back();
      broken = false;
      const auto [first, second] = std::minmax(low, high);
      line.runs.back().push_back({.x = x[first], .y = y[first]});
      if (second != first) line.runs.back().push_back({.x = x[second], .y = y[second]});
    }
    broken = broken || !std::isfinite(y[end - 1]);
    i = end;
  }
  return line;
}

std::string chart_markup(const Chart& chart, int index, int columns) {
  const Axis x_axis = x_axis_of(chart);
  Range range, strong_range;
  std::vector<Line> lines;
  for (const Series& series : chart.series) {
    Line line;
    line.series = &series;
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      range.include(series.y[i]);
      if (!std::isfinite(series.y[i]) && line.not_finite++ == 0) line.first_gap = series.x[i];
    }
    for (const double value : strong_values(series)) {
      range.include(value);
      strong_range.include(value);
      if (std::isfinite(value)) line.last = value;
    }
    line.strong = thinned(series.x, strong_values(series), x_axis, columns);
    if (!series.smoothed.empty()) line.faint = thinned(series.x, series.y, x_axis, columns);
    lines.push_back(std::move(line));
  }

  // A log scale is offered if the values span at least a decade.
  const bool offer_log = chart.offer_log && !strong_range.empty() && range.low >= 0 &&
                         strong_range.low > 0 && strong_range.high >= 10 * strong_range.low;
  const bool start_log = offer_log && strong_range.high >= 100 * strong_range.low;

  std::string out = fmt::format(R"(<figure class="chart{}{}">)", chart.minor ? " minor" : "",
                                has_end_labels(chart) ? " labelled" : "");
  if (offer_log) {
    out += fmt::format(R"(<input type="checkbox" class="switch" id="log{}"{}/>)", index,
                       start_log ? R"( checked="checked")" : "");
  }
  out += fmt::format("<figcaption><h3>{}</h3>", shortened(chart.title, 80));
  if (offer_log)
    out += fmt::format(R"(<label class="toggle" for="log{}">log scale</label>)", index);
  if (lines.size() == 1 && !range.empty()) {
    // Small charts have room for a unit only at the axis.
    const bool unit = !chart.minor || in_ticks(chart.unit);
    out += fmt::format(R"(<span class="last">{}</span>)",
                       quantity(lines[0].last, unit ? chart.unit : ""));
  }
  out += "</figcaption>";
  if (range.empty()) {
    out += R"(<p class="empty">No values to draw.</p>)" + gap_notes(chart, lines);
    return out + "</figure>\n";
  }
  out += legend_markup(chart, lines);
  out += fmt::format(
      R"(<div class="plot" data-low="{:.8g}" data-high="{:.8g}" data-x="{}" data-unit="{}">)",
      x_axis.low, x_axis.high, shortened(chart.x_label, 40),
      chart.unit == "%"    ? "%"
      : chart.unit.empty() ? ""
                           : " " + shortened(chart.unit, 20));
  Range shown = range;
  if (chart.minor && range.low >= 0 && strong_range.high > 0) {
    // In a small chart outliers are cut off at the edge, so that they do not flatten the line.
    shown.high = std::min(shown.high, kAboveSmoothed * strong_range.high);
  }
  out += view_markup(chart, lines, x_axis, linear_axis(chart, shown));
  if (offer_log) {
    // A few batches with hardly any loss must not take up the chart.
    const double low = std::max(range.low, strong_range.low / kBelowSmoothed);
    out += view_markup(chart, lines, x_axis, log_axis(low, range.high));
  }
  return out + "</div>" + gap_notes(chart, lines) + "</figure>\n";
}

}  // namespace volta::report
