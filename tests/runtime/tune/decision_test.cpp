// Which of several candidates is chosen by their times.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <vector>

#include "runtime/tune/tuner.h"

namespace volta {
namespace {

using plan::decide;
using plan::Decision;

const auto kNeverLate = [] { return false; };

std::optional<Decision> decide_by(std::vector<double> seconds) {
  return decide(
      seconds.size(), [&](std::size_t n) { return std::optional(seconds[n]); }, kNeverLate);
}

TEST(Decide, TheFastestIsChosenTheSlowNever) {
  const auto decision = decide_by({1.0, 50.0, 0.8, 1.1});
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->chosen, 2u);
  EXPECT_DOUBLE_EQ(decision->usual_seconds, 1.0);
  EXPECT_DOUBLE_EQ(decision->chosen_seconds, 0.8);
}

TEST(Decide, WhatIsFasterByLessThanTimesVaryIsNot) {
  EXPECT_EQ(decide_by({1.0, 0.98})->chosen, 0u);
  EXPECT_EQ(decide_by({1.0, 0.96})->chosen, 1u);
}

// One slow measurement means nothing: the least of several times counts, measured in turns.
TEST(Decide, TheLeastOfSeveralTimesCounts) {
  std::vector<std::size_t> order;
  const auto decision = decide(
      3,
      [&](std::size_t n) -> std::optional<double> {
        order.push_back(n);
        const bool disturbed = order.size() <= 3 && n == 1;
        return n == 1 ? (disturbed ? 1.2 : 0.7) : 1.0;
      },
      kNeverLate);
  EXPECT_EQ(decision->chosen, 1u);
  EXPECT_EQ(std::vector<std::size_t>(order.begin(), order.begin() + 8),
            (std::vector<std::size_t>{0, 1, 2, 2, 1, 0, 0, 1}));
}

TEST(Decide, TheSlowAreTimedOnce) {
  std::map<std::size_t, int> times;
  decide(
      3,
      [&](std::size_t n) {
        ++times[n];
        return std::optional(n == 2 ? 3.0 : 1.0);
      },
      kNeverLate);
  EXPECT_EQ(times[2], 1);
  EXPECT_EQ(times[0], times[1]);
  EXPECT_GE(times[0], 4);
}

TEST(Decide, WhatDoesNotRunIsPassedOver) {
  const auto seconds = [](std::size_t n) -> std::optional<double> {
    if (n == 1) return std::nullopt;
    return n == 2 ? 0.5 : 1.0;
  };
  EXPECT_EQ(decide(3, seconds, kNeverLate)->chosen, 2u);
  // Without the default there is nothing to compare with, and with the default alone nothing to
  // choose.
  EXPECT_FALSE(decide(2, [](std::size_t) { return std::optional<double>(); }, kNeverLate));
  EXPECT_FALSE(decide(1, [](std::size_t) { return std::optional(1.0); }, kNeverLate));
}

// With little time a small difference does not decide.
TEST(Decide, EndsWhenItIsLate) {
  int timed = 0;
  const auto late_after = [&](int most, double second) {
    timed = 0;
    return decide(
        5,
        [&](std::size_t n) {
          ++timed;
          return std::optional(n == 1 ? second : 1.0);
        },
        [&timed, most] { return timed >= most; });
  };
  EXPECT_EQ(late_after(0, 0.5)->chosen, 1u);
  EXPECT_EQ(timed, 2);
  EXPECT_EQ(late_after(2, 0.95)->chosen, 0u);
}

}  // namespace
}  // namespace volta
