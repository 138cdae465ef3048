// The report's page: well-formed whatever text it contains, with correct values, and small.
#include "report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.h"
#include "report/chart.h"
#include "report/markup.h"
#include "volta/error.h"

namespace volta::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Finds the first error in the page's markup, or returns "": elements must be closed in order,
// attributes quoted and unique, text must not look like markup, ids must be unique, and characters
// valid.
class MarkupCheck {
 public:
  explicit MarkupCheck(std::string_view page) : rest_(page) {}

  std::string run() {
    const std::string_view doctype = "<!DOCTYPE html>\n";
    if (!rest_.starts_with(doctype)) return "no doctype";
    rest_.remove_prefix(doctype.size());
    while (!rest_.empty() && fault_.empty()) {
      if (rest_.front() == '<')
        tag();
      else
        text(rest_.substr(0, rest_.find('<')));
    }
    if (fault_.empty() && !open_.empty()) fault_ = open_.back() + " is not closed";
    return fault_;
  }

 private:
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what + " near: " + std::string(rest_.substr(0, 120));
  }

  void characters(std::string_view part) {
    for (std::size_t at = part.find('&'); at != std::string_view::npos;
         at = part.find('&', at + 1)) {
      bool known = false;
      for (const char* name : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
        known = known || part.substr(at).starts_with(name);
      if (!known) fail("a bare ampersand");
    }
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
        fail("a control character");
    }
  }

  void text(std::string_view part) {
    if (part.find('>') != std::string_view::npos) fail("a bare >");
    if (open_.empty() && part.find_first_not_of(" \n") != std::string_view::npos)
      fail("text outside of elements");
    characters(part);
    rest_.remove_prefix(part.size());
  }

  std::string_view name() {
    const std::size_t end =
        rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(found.size());
    if (found.empty()) fail("a name is missing");
    return found;
  }

  bool skip(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }

  void tag() {
    skip("<");
    if (skip("/")) {
      const std::string_view closed = name();
      if (!skip(">") || open_.empty() || open_.back() != closed)
        return fail("a wrong end of " + std::string(closed));
      open_.pop_back();
      return;
    }
    const std::string element(name());
    std::set<std::string_view> given;
    while (skip(" ")) {
      const std::string_view attribute = name();
      if (!given.insert(attribute).second) return fail("an attribute given twice");
      if (attribute.starts_with("on")) return fail("an inline handler");
      if (!skip("=\"")) return fail("an attribute without quotes");
      const std::string_view value = rest_.substr(0, rest_.find('"'));
      if (value.find_first_of("<>") != std::string_view::npos)
        return fail("a bare < or > in an attribute");
      characters(value);
      if (attribute == "id" && !ids_.insert(std::string(value)).second)
        return fail("an id used twice");
      if ((attribute == "src" || attribute == "href") &&
          !value.starts_with("data:image/png;base64,"))
        return fail("a reference out of the page");
      rest_.remove_prefix(value.size());
      skip("\"");
    }
    if (skip("/>")) return;
    if (!skip(">")) return fail("a tag without its end");
    open_.push_back(element);
    if (element == "script" || element == "style") {
      const std::size_t end = rest_.find("</");
      if (!rest_.substr(std::min(end, rest_.size())).starts_with("</" + element + ">"))
        return fail(element + " contains </");
      rest_.remove_prefix(end);
    }
  }

  std::string_view rest_;
  std::string fault_;
  std::vector<std::string> open_;
  std::set<std::string> ids_;
};

std::string fault_of(const std::string& page) { return MarkupCheck(page).run(); }

bool contains(const std::string& page, std::string_view part) {
  return page.find(part) != std::string::npos;
}

std::size_t count(const std::string& page, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = page.find(part); at != std::string::npos;
       at = page.find(part, at + part.size()))
    ++found;
  return found;
}

// The value of the attribute in the first tag with this beginning.
std::string attribute(const std::string& page, const std::string& tag, const std::string& name) {
  const std::size_t at = page.find(tag);
  if (at == std::string::npos) return "no " + tag;
  const std::size_t from = page.find(" " + name + "=\"", at) + name.size() + 3;
  return page.substr(from, page.find('"', from) - from);
}

// The coordinates of a path's points; the pen is lifted where a new run begins.
struct Drawn {
  double x = 0, y = 0;
  bool begins = false;
};
std::vector<Drawn> drawn(const std::string& path) {
  std::vector<Drawn> points;
  const char* at = path.c_str();
  while (*at != '\0') {
    Drawn point;
    if (*at == 'M') {
      point.begins = true;
      ++at;
    } else if (*at == ' ') {
      ++at;
    }
    char* end = nullptr;
    point.x = std::strtod(at, &end);
    if (end == at || *end != ',') ADD_FAILURE() << "not a path: " << at;
    if (end == at || *end != ',') return points;
    at = end + 1;
    point.y = std::strtod(at, &end);
    at = end;
    if (std::string_view(at).starts_with("h0")) at += 2;
    points.push_back(point);
  }
  return points;
}

Chart one_line(std::vector<double> x, std::vector<double> y) {
  Chart chart;
  chart.title = "Loss";
  chart.series = {{.name = "training", .x = std::move(x), .y = std::move(y)}};
  return chart;
}

std::string line_of(const Chart& chart) {
  return attribute(chart_markup(chart, 0, 400), "<path class=\"line c0\"", "d");
}

// A string with everything that could break a page.
const char* const kHostile =
    "</script></style><b onclick=\"x\">'&amp;<!--]]>\x01\xFF \xE2\x82 ünïcödé 学习 "
    "\xF0\x9F\x8E\x89";
// The part of it that would be an element.
const char* const kTrap = "<b onclick";

ReportData full_of(const std::string& text) {
  ReportData data;
  data.title = data.recipe = data.command_line = data.device = data.version = data.date = text;
  data.status = {.state = State::failed, .step = 12, .reason = text};
  data.totals = {.steps = 12,
                 .epochs = 0.5,
                 .seconds = 3.5,
                 .samples_per_second = 1234.5,
                 .best = Metric{text, 12.5, text, 7}};
  data.config = {{text, text}, {"plain", "</script><b>"}};
  Chart chart{.title = text, .unit = text, .x_label = text, .series = {}, .offer_log = true};
  for (int i = 0; i < 10; ++i)
    chart.series.push_back({.name = text, .x = {1, 2, 3}, .y = {1, kNaN, 100}, .smoothed = {}});
  data.charts = {chart, chart};
  data.charts[1].minor = true;
  data.confusion = Confusion{{text, text}, {5, 1, 0, 7}};
  data.texts = {{text, text, 3}};
  data.images = {{.width = 1,
                  .height = 1,
                  .channels = 3,
                  .pixels = {1, 2, 3},
                  .label = text,
                  .predicted = "b",
                  .confidence = 0.5}};
  data.model.rows = {{.name = text,
                      .kind = text,
                      .depth = 1,
                      .outputs = {Shape{1, 2}},
                      .parameters = 3,
                      .operations = 4}};
  data.model.parameters = 3;
  data.model.strays = {text};
  data.plan.steps = {{.kind = text,
                      .what = text,
                      .schedule = text,
                      .bytes_read = 1,
                      .bytes_written = 2,
                      .operations = 3,
                      .seconds = 1e-6,
                      .peak_share = 0.5}};
  data.files = {{text, 123, text}};
  data.commands = {{text, text}};
  return data;
}

void keep(const std::string& name, const std::string& page) {
  if (const char* folder = std::getenv("VOLTA_REPORT_EXAMPLE")) {
    std::filesystem::create_directories(folder);
    std::ofstream(std::filesystem::path(folder) / name, std::ios::binary) << page;
  }
}

TEST(ReportCheck, FindsWhatIsWrong) {
  const auto with = [](const std::string& body) {
    return fault_of("<!DOCTYPE html>\n<html>" + body + "</html>\n");
  };
  EXPECT_EQ(with("<p class=\"a\">b &amp; c</p><br/>"), "");
  for (const char* bad :
       {"<p>", "</p>", "<p><b></p></b>", "a & b", "a > b", "<p class=a></p>", "<p class=\"<\"></p>",
        "<p id=\"a\"/><p id=\"a\"/>", "<p a=\"1\" a=\"2\"/>", "<img src=\"x.png\"/>",
        "<p onclick=\"f()\"/>", "\x01", "<script></b></script>"})
    EXPECT_NE(with(bad), "") << bad;
  EXPECT_NE(fault_of("<html></html>"), "");
}

TEST(Report, AnEmptyOneIsAPage) {
  const std::string page = render({});
  EXPECT_EQ(fault_of(page), "");
  EXPECT_TRUE(contains(page, "<h1>Training run</h1>"));
  for (const char* part : {"<svg", "<table", "<details", "<dl", "<h2>"})
    EXPECT_FALSE(contains(page, part)) << part;
}

TEST(Report, EveryPieceAlone) {
  const ReportData full = full_of("word");
  std::vector<ReportData> pages(10);
  pages[0].charts = full.charts;
  pages[1].confusion = full.confusion;
  pages[2].texts = full.texts;
  pages[3].images = full.images;
  pages[4].model = full.model;
  pages[5].plan = full.plan;
  pages[6].files = full.files;
  pages[7].commands = full.commands;
  pages[8].config = full.config;
  pages[9].totals = full.totals;
  const std::vector<std::string> wanted = {
      "<svg",    "class=\"matrix\"", "Generated text", "data:image/png", "whole model",
      "kernels", "Files of the run", "Commands",       "Configuration",  "class=\"figures"};
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (i == 4) pages[i].model.rows[0].name = "";
    const std::string page = render(pages[i]);
    EXPECT_EQ(fault_of(page), "") << wanted[i];
    EXPECT_TRUE(contains(page, wanted[i])) << wanted[i];
  }
}

TEST(Report, HostileTextStaysText) {
  const std::string page = render(full_of(kHostile));
  EXPECT_EQ(fault_of(page), "");
  EXPECT_FALSE(contains(page, kTrap));
  EXPECT_EQ(count(page, "</script>"), 1u);
  EXPECT_EQ(count(page, "</style>"), 1u);
  EXPECT_EQ(count(page, "]]>"), 1u);
  // The configuration's value is shown as text.
  EXPECT_TRUE(contains(page, "&lt;/script&gt;&lt;b&gt;"));
  EXPECT_TRUE(contains(page, "ünïcödé 学习 🎉"));
  EXPECT_TRUE(contains(page, "\xEF\xBF\xBD"));  // replaces invalid UTF-8
  keep("hostile.html", page);
}

TEST(Report, LongNamesAreShortened) {
  std::string longest;
  for (int i = 0; i < 100'000; ++i) longest += "é<";
  ReportData data = full_of(longest);
  EXPECT_EQ(fault_of(render(data)), "");
  EXPECT_TRUE(contains(render(data), escaped(longest)));  // to be copied, so complete
  data.command_line = "volta";
  data.commands[0].line = "volta";
  EXPECT_LT(render(data).size(), 200'000u);
}

TEST(Report, RefersToNothingOutside) {
  const std::string page = render(full_of("word"));
  EXPECT_FALSE(contains(page, "http://"));
  EXPECT_FALSE(contains(page, "https://"));
  EXPECT_FALSE(contains(page, "@import"));
  EXPECT_FALSE(contains(page, "url("));
  EXPECT_TRUE(contains(page, "default-src 'none'"));
}

TEST(Report, FiguresAndHeadline) {
  ReportData data;
  data.recipe = "digits-cnn";
  data.device = "cpu";
  data.totals = {.steps = 4690,
                 .epochs = 5,
                 .seconds = 72,
                 .samples_per_second = 4166.7,
                 .best = Metric{"test accuracy", 99.125, "%", 4000}};
  data.model.parameters = 61'706;
  data.model.trainable = 61'706;
  data.model.bytes = 246'824;
  const std::string page = render(data);
  EXPECT_TRUE(contains(page, "<h1>digits-cnn</h1>"));
  EXPECT_TRUE(contains(page,
                       "<p class=\"lead\"><b>99.12% test accuracy</b> after <b>5 epochs</b> in "
                       "<b>1 min 12 s</b> on <b>cpu</b>.</p>"));
  for (const char* part :
       {"at step 4,000", "4,690", "4,167", "15.4 ms a step", "61,706", "246.8 kB", "✓ Finished"})
    EXPECT_TRUE(contains(page, part)) << part;
  data.totals.best.reset();
  EXPECT_TRUE(contains(render(data), "<p class=\"lead\">After <b>5 epochs</b>"));
  data.status = {.state = State::interrupted, .step = 1200};
  EXPECT_TRUE(contains(render(data), "Interrupted at step 1,200"));
  data.status = {.state = State::failed, .step = 31, .reason = "the loss is NaN"};
  EXPECT_TRUE(contains(render(data), "Failed at step 31"));
  EXPECT_TRUE(contains(render(data), "the loss is NaN"));
}

TEST(ReportChart, ValuesLieWhereTheAxesSay) {
  // x goes from 0 to 40 and y from 0 to 8, where the axis ends, so 2 is a quarter of the height.
  const Chart chart = one_line({0, 10, 40}, {2, 8, 5});
  EXPECT_EQ(line_of(chart), "M0,750 250,0 1000,375");
  const std::string page = chart_markup(chart, 0, 400);
  for (const char* tick : {">0<", ">2<", ">4<", ">6<", ">8<", ">10<", ">40<"})
    EXPECT_TRUE(contains(page, tick)) << tick;
  // The tick of 2 has the same height as the value.
  EXPECT_TRUE(contains(page, "<text x=\"-8\" y=\"75%\" dy=\".34em\">2</text>"));
  EXPECT_TRUE(contains(page, "data-points=\"0,2 10,8 40,5\""));
}

TEST(ReportChart, NearValuesAreSeenApart) {
  Chart chart = one_line({1, 2}, {98, 99});
  chart.from_zero = false;
  EXPECT_EQ(line_of(chart), "M0,1000 1000,0");
  chart.from_zero = true;
  EXPECT_EQ(line_of(chart), "M0,20 1000,10");
}

TEST(ReportChart, LogScaleWhereItHelps) {
  Chart chart = one_line({0, 1, 2}, {10, 1, 0.1});
  EXPECT_FALSE(contains(chart_markup(chart, 3, 400), "log3"));
  chart.offer_log = true;
  const std::string page = chart_markup(chart, 3, 400);
  EXPECT_TRUE(contains(page, "id=\"log3\" checked"));
  EXPECT_TRUE(contains(page, "for=\"log3\""));
  const std::size_t log = page.find("<svg class=\"log\"");
  ASSERT_NE(log, std::string::npos);
  EXPECT_EQ(attribute(page.substr(log), "<path class=\"line c0\"", "d"), "M0,0 500,500 1000,1000");
  chart.series[0].y = {3, 1, 0.2};  // a log scale is offered but not selected
  EXPECT_TRUE(contains(chart_markup(chart, 3, 400), "id=\"log3\"/>"));
  chart.series[0].y = {3, 2, 1};
  EXPECT_FALSE(contains(chart_markup(chart, 3, 400), "log3"));
  chart.series[0].y = {30, 2, 0};
  EXPECT_FALSE(contains(chart_markup(chart, 3, 400), "log3"));
  chart.series[0].y = {30, -2, 1};
  EXPECT_FALSE(contains(chart_markup(chart, 3, 400), "log3"));
}

TEST(ReportChart, GapsLiftThePenAndAreMarked) {
  const Chart chart = one_line({0, 1, 2, 3, 4, 5}, {1, 2, kNaN, 4, kInf, 2});
  const auto points = drawn(line_of(chart));
  ASSERT_EQ(points.size(), 4u);
  EXPECT_TRUE(points[0].begins);
  EXPECT_FALSE(points[1].begins);
  EXPECT_TRUE(points[2].begins);
  EXPECT_TRUE(points[3].begins);
  EXPECT_EQ(points[2].x, 600);
  const std::string page = chart_markup(chart, 0, 400);
  EXPECT_EQ(attribute(page, "<path class=\"gaps\"", "d"), "M400,1000v-40M800,1000v-40");
  EXPECT_TRUE(contains(page, "2 of 6 values of training are not finite, the first at step 2."));
  EXPECT_FALSE(contains(page, "nan"));
  EXPECT_FALSE(contains(page, "inf"));
}

TEST(ReportChart, NoneOneAndOnlyGaps) {
  EXPECT_TRUE(contains(chart_markup(one_line({}, {}), 0, 400), "No values to draw."));
  EXPECT_TRUE(contains(chart_markup(Chart{}, 0, 400), "No values to draw."));
  const std::string gaps = chart_markup(one_line({1, 2}, {kNaN, -kInf}), 0, 400);
  EXPECT_TRUE(contains(gaps, "No values to draw."));
  EXPECT_TRUE(contains(gaps, "2 of 2 values"));
  EXPECT_EQ(line_of(one_line({7}, {3})), "M500,0h0");  // a dot in the middle
  EXPECT_EQ(line_of(one_line({7}, {0})), "M500,1000h0");
}

TEST(ReportChart, ExtremeNumbersStayInside) {
  const double huge = std::numeric_limits<double>::max(),
               tiny = std::numeric_limits<double>::denorm_min();
  for (const auto& values : std::vector<std::vector<double>>{{-huge, huge},
                                                             {tiny, 2 * tiny},
                                                             {0, tiny},
                                                             {huge, huge},
                                                             {1e15, 1e15 + 1},
                                                             {-5, -3},
                                                             {0, 0},
                                                             {1e-9, 3e-9}}) {
    Chart chart = one_line({1, 1e12}, values);
    chart.offer_log = true;
    for (const bool from_zero : {true, false}) {
      chart.from_zero = from_zero;
      const std::string page = chart_markup(chart, 0, 400);
      EXPECT_FALSE(contains(page, "nan") || contains(page, "inf")) << values[0];
      EXPECT_LT(page.size(), 20'000u) << values[0];
      for (const Drawn& point : drawn(attribute(page, "<path class=\"line c0\"", "d"))) {
        EXPECT_GE(point.y, 0);
        EXPECT_LE(point.y, 1000);
      }
    }
  }
}

TEST(ReportChart, AMillionPointsKeepTheirExtremes) {
  std::vector<double> x, y;
  for (int i = 0; i < 1'000'000; ++i) {
    x.push_back(i);
    y.push_back(5 + std::sin(i * 1e-4));
  }
  y[123'457] = 9.5;  // a single peak
  y[765'432] = 0.5;
  const Chart chart = one_line(x, y);
  const std::string page = chart_markup(chart, 0, 400);
  EXPECT_LT(page.size(), 40'000u);
  const auto points = drawn(attribute(page, "<path class=\"line c0\"", "d"));
  EXPECT_LE(points.size(), 2u * 401);
  EXPECT_GE(points.size(), 700u);
  const auto has = [&points](double px, double py) {
    return std::any_of(points.begin(), points.end(), [&](const Drawn& p) {
      return std::abs(p.x - px) <= 0.051 && std::abs(p.y - py) <= 0.051;
    });
  };
  EXPECT_TRUE(has(123.457, 50));  // the axis goes from 0 to 10
  EXPECT_TRUE(has(765.432, 950));
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(),
                             [](const Drawn& a, const Drawn& b) { return a.x < b.x; }));
  EXPECT_EQ(std::count_if(points.begin(), points.end(), [](const Drawn& p) { return p.begins; }),
            1);
}

TEST(ReportChart, AMillionPointsWithGaps) {
  std::vector<double> x, y;
  for (int i = 0; i < 1'000'000; ++i) {
    x.push_back(i);
    y.push_back(i % 2 == 0 || (i > 400'000 && i < 500'000) ? kNaN : i % 1000);
  }
  const ThinLine line = thinned(x, y, tight_axis(0, 999'999, 5, true), 100);
  EXPECT_LE(line.gaps.size(), 101u);
  EXPECT_LE(line.runs.size(), 101u);
  EXPECT_GE(line.runs.size(), 2u);
  for (const auto& run : line.runs) {
    for (const Point& point : run) EXPECT_FALSE(point.x > 400'000 && point.x < 500'000);
  }
}

TEST(ReportChart, SmoothedLinesLieOverFaintOnes) {
  Chart chart = one_line({0, 1, 2, 3}, {4, 0, 4, 0});
  chart.series[0].smoothed = {4, 2, 3, 2};
  const std::string page = chart_markup(chart, 0, 400);
  EXPECT_EQ(attribute(page, "<path class=\"faint c0\"", "d"), "M0,0 333.3,1000 666.7,0 1000,1000");
  EXPECT_EQ(attribute(page, "<path class=\"line c0\"", "d"), "M0,0 333.3,500 666.7,250 1000,500");
  EXPECT_TRUE(contains(page, "data-name=\"training (smoothed)\""));
}

TEST(ReportChart, SeveralLinesAreNamed) {
  Chart chart = one_line({0, 1}, {1, 2});
  chart.unit = "nats";
  chart.series.push_back({.name = "validation", .x = {0, 1}, .y = {2, 2.01}, .smoothed = {}});
  const std::string page = chart_markup(chart, 0, 400);
  EXPECT_TRUE(contains(page, ">validation<title>"));
  EXPECT_TRUE(contains(page, "<li class=\"c1\"><i></i>validation <b>2.01 nats</b></li>"));
  // The ends of the lines have nearly the same height, but their names do not overlap.
  const std::size_t names = page.find("<g class=\"names\">");
  const std::string rest = page.substr(names);
  const double first = std::stod(attribute(rest, "<text class=\"c1\"", "y")),
               second = std::stod(attribute(rest, "<text class=\"c0\"", "y"));
  EXPECT_GE(second - first, 30);
}

TEST(ReportChart, Axes) {
  const Axis axis = round_axis(0.13, 0.87, 5);
  EXPECT_EQ(axis.low, 0);
  EXPECT_NEAR(axis.high, 1, 1e-12);
  EXPECT_EQ(tick_labels(axis, "%"),
            (std::vector<std::string>{"0", "0.2%", "0.4%", "0.6%", "0.8%", "1.0%"}));
  EXPECT_EQ(tick_labels(round_axis(0, 2.5e9, 5), "B"),
            (std::vector<std::string>{"0", "0.5 GB", "1.0 GB", "1.5 GB", "2.0 GB", "2.5 GB"}));
  EXPECT_EQ(tick_labels(tight_axis(1, 23'000, 5, true), ""),
            (std::vector<std::string>{"5k", "10k", "15k", "20k"}));
  EXPECT_EQ(tick_labels(tight_axis(0, 6000, 3, true), ""),
            (std::vector<std::string>{"0", "2,000", "4,000", "6,000"}));
  EXPECT_EQ(tick_labels(tight_axis(0, 2, 6, true), ""), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(tick_labels(round_axis(0, 4e-5, 4), ""),
            (std::vector<std::string>{"0", "1e-5", "2e-5", "3e-5", "4e-5"}));
  EXPECT_EQ(tick_labels(log_axis(0.003, 40), ""),
            (std::vector<std::string>{"0.01", "0.1", "1", "10"}));
  EXPECT_EQ(tick_labels(log_axis(1.5, 18), ""),
            (std::vector<std::string>{"1", "2", "5", "10", "20"}));
}

TEST(ReportText, Numbers) {
  EXPECT_EQ(number(0.012344), "0.01234");
  EXPECT_EQ(number(12345.6), "12,346");
  EXPECT_EQ(number(-1234), "-1,234");
  EXPECT_EQ(number(1.5e-5), "1.5e-5");
  EXPECT_EQ(number(1e300), "1e300");
  EXPECT_EQ(number(kNaN), "NaN");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(prefixed(1.5e9, "B"), "1.5 GB");
  EXPECT_EQ(prefixed(999'960, ""), "1 M");
  EXPECT_EQ(quantity(99.125, "%"), "99.12%");
  EXPECT_EQ(quantity(0.1861, "%"), "0.19%");
  EXPECT_EQ(quantity(0, "%"), "0%");
  EXPECT_EQ(duration(0.0415), "41.5 ms");
  EXPECT_EQ(duration(59.6), "1 min 00 s");
  EXPECT_EQ(duration(7500), "2 h 05 min");
  EXPECT_EQ(duration(200'000), "2 d 07 h");
  EXPECT_EQ(duration(2e-6), "2 µs");
}

TEST(ReportText, Escapes) {
  EXPECT_EQ(escaped("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
  EXPECT_EQ(escaped("a\r\nb\rc\td"), "a\nb\nc\td");
  EXPECT_EQ(escaped(std::string_view("\0x", 2)), "\xEF\xBF\xBDx");
  EXPECT_EQ(escaped("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");  // overlong
  EXPECT_EQ(escaped("\xED\xA0\x80").size(), 9u);               // half of a surrogate pair
  EXPECT_EQ(escaped("\xF4\x90\x80\x80").size(), 12u);          // beyond Unicode
  EXPECT_EQ(escaped("\xEF\xBF\xBF"), "\xEF\xBF\xBD");          // not a character
  EXPECT_EQ(escaped("学习🎉"), "学习🎉");
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("abcd", 4), "abcd");
  EXPECT_EQ(shortened("学习学习学习", 3), "学习…");
  EXPECT_EQ(length("学习a"), 3u);
  EXPECT_EQ(base64("Man"), "TWFu");
  EXPECT_EQ(base64("Ma"), "TWE=");
  EXPECT_EQ(base64("M"), "TQ==");
  EXPECT_EQ(base64("\xFF\xFE\xFD"), "//79");
}

TEST(ReportText, Smoothing) {
  const std::vector<double> constant(10, 3.0);
  for (const double value : smooth(constant))
    EXPECT_NEAR(value, 3, 1e-12);  // unbiased from the first value on
  const auto values = smooth(std::vector<double>{1, kNaN, 2}, 0.5);
  EXPECT_EQ(values[0], 1);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_NEAR(values[2], (0.25 * 1 + 0.5 * 2) / 0.75, 1e-12);
}

TEST(ReportConfusion, AMatrixOfFew) {
  ReportData data;
  data.confusion = Confusion{{"cat", "dog"}, {9, 1, 1234, 0}};
  const std::string page = render(data);
  EXPECT_EQ(fault_of(page), "");
  EXPECT_TRUE(contains(page, "90.0%"));
  EXPECT_TRUE(contains(page, ">1,234</td>"));
  EXPECT_TRUE(contains(page, "9 of 1,244 right"));
}

TEST(ReportConfusion, PairsOfMany) {
  ReportData data;
  Confusion confusion;
  const std::size_t n = 1000;
  for (std::size_t i = 0; i < n; ++i) confusion.labels.push_back("class" + std::to_string(i));
  confusion.counts.assign(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) confusion.counts[i * n + i] = 50;
  for (std::size_t k = 0; k < 40; ++k) confusion.counts[k * n + k + 7] = k + 1;
  data.confusion = confusion;
  const std::string page = render(data);
  EXPECT_EQ(fault_of(page), "");
  EXPECT_LT(page.size(), 60'000u);
  // The most frequent mistakes come first: 40 of 90 examples.
  EXPECT_TRUE(contains(page,
                       "<tr><td class=\"key\">class39</td><td class=\"key\">class46</td><td "
                       "class=\"n\">40</td><td class=\"n\">44.4%</td></tr>"));
  EXPECT_LT(page.find("class39<"), page.find("class38<"));
  EXPECT_TRUE(contains(page, "class25<"));
  EXPECT_FALSE(contains(page, "<td class=\"key\">class24</td>"));
  data.confusion->counts.assign(n * n, 0);
  EXPECT_TRUE(contains(render(data), "No example was taken for another class."));
}

TEST(ReportImages, AreSmallAndJudged) {
  ReportData data;
  for (int i = 0; i < 100; ++i) {
    ImageSample image{.width = 640,
                      .height = 480,
                      .channels = 3,
                      .pixels = {},
                      .label = "cat",
                      .predicted = i == 3 ? "dog" : "cat",
                      .confidence = 0.875};
    std::uint32_t state = 1;
    for (int at = 0; at < 640 * 480 * 3; ++at)
      image.pixels.push_back(
          static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24));
    data.images.push_back(std::move(image));
  }
  const std::string page = render(data);
  EXPECT_EQ(fault_of(page), "");
  EXPECT_LT(page.size(), 450'000u);
  EXPECT_EQ(count(page, "data:image/png"), 60u);
  EXPECT_EQ(count(page, "<figure class=\"wrong\">"), 1u);
  EXPECT_TRUE(contains(page, "✗ dog <small>88%</small></span><small>is cat</small>"));
  EXPECT_TRUE(contains(page, "60 of 100 images. A choice of examples: 1 of these 60 is wrong"));
}

TEST(Report, ALongRunFits) {
  ReportData data;
  std::vector<double> x, y;
  for (int i = 0; i < 200'000; ++i) {
    x.push_back(i);
    y.push_back(std::exp(-i * 2e-5) * (1.5 + std::sin(i * 12.9898) * 0.7));
  }
  const Series series{.name = "a", .x = x, .y = y, .smoothed = smooth(y)};
  for (int c = 0; c < 8; ++c)
    data.charts.push_back(
        {.title = "chart", .series = {series, series, series}, .offer_log = true});
  for (int i = 0; i < 500; ++i)
    data.plan.steps.push_back(
        {.kind = "kernel", .what = std::string(500, 'w'), .schedule = "rows"});
  for (int i = 0; i < 20; ++i) data.texts.push_back({"prompt", std::string(20'000, 't'), i});
  const std::string page = render(data);
  EXPECT_EQ(fault_of(page), "");
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_TRUE(contains(page, "250 more rows left out."));
  EXPECT_TRUE(contains(page, "The first 6,000 of 20,000 characters."));
  EXPECT_TRUE(contains(page, "12 earlier texts left out."));
}

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Report, SizesThatContradictAreRefused) {
  ReportData data;
  data.charts = {one_line({1, 2}, {1})};
  EXPECT_EQ(error_of([&] { render(data); }),
            "report: the series training has 2 steps, 1 values and 0 smoothed values; give as many "
            "of each");
  data.charts = {one_line({1}, {1})};
  data.charts[0].series[0].smoothed = {1, 2};
  EXPECT_NE(error_of([&] { render(data); }), "no error");
  data = {};
  data.confusion = Confusion{{"a", "b"}, {1, 2, 3}};
  EXPECT_EQ(error_of([&] { render(data); }),
            "report: a confusion matrix of 2 labels has 3 counts; give 4");
  data = {};
  data.images = {{.width = 2, .height = 2, .channels = 1, .pixels = {1, 2, 3}}};
  EXPECT_EQ(
      error_of([&] { render(data); }),
      "report: an image of 2x2 with 1 channels has 3 bytes; give 1, 3 or 4 channels and 4 bytes");
  data.images = {{.width = 1, .height = 1, .channels = 2, .pixels = {1, 2}}};
  EXPECT_NE(error_of([&] { render(data); }), "no error");
}

}  // namespace
}  // namespace volta::report
