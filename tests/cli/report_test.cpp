// The report's page: well-formed whatever text it contains, with correct values, and small.
#include "report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cli/report_testing.h"
#include "report/axis.h"
#include "report/chart.h"
#include "report/markup.h"
#include "volta/error.h"

namespace volta::report {
namespace {

using namespace report_testing;

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
