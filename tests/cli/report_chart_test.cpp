// Charts of the report: values lie where the axes say, at any number of points.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cli/report_testing.h"
#include "report/axis.h"
#include "report/chart.h"
#include "report/markup.h"

namespace volta::report {
namespace {

using namespace report_testing;

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

}  // namespace
}  // namespace volta::report
