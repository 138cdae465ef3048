// The fastest of several candidates: slow ones are never chosen, each is timed once, and the result
// is remembered for the next process.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "backend/timed_choice.h"
#include "volta/counters.h"

namespace volta {
namespace {

// A key that no run of this test has timed.
ChoiceKey fresh_key() {
  return {"a machine", "key " + std::to_string(std::random_device{}()) + " " +
                           std::to_string(std::random_device{}())};
}

const std::vector<std::string> kNames{"usual", "slow", "fast", "broken", "late"};

TEST(TimedChoice, TheSlowWayIsNeverChosen) {
  std::vector<std::size_t> tried;
  const auto seconds = [&](std::size_t candidate) -> std::optional<double> {
    tried.push_back(candidate);
    if (kNames[candidate] == "broken") return std::nullopt;
    return kNames[candidate] == "slow" ? 1.0 : kNames[candidate] == "fast" ? 0.01 : 0.02;
  };
  const Counters before = counters();
  EXPECT_EQ(fastest_candidate(kNames.size(), seconds, 100), 2u);
  EXPECT_EQ(tried, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(counters().timings - before.timings, 4u);
}

// Times vary and grow as a device warms up: similar candidates are timed in turns, and the median
// counts.
TEST(TimedChoice, CloseOnesAreTimedAgain) {
  std::vector<std::size_t> tried;
  const auto seconds = [&](std::size_t candidate) -> std::optional<double> {
    tried.push_back(candidate);
    if (candidate == 3) return 5.0;
    return candidate == 1 && tried.size() < 5 ? 1.03 : candidate == 1 ? 0.90 : 1.0;
  };
  EXPECT_EQ(fastest_candidate(4, seconds, 100), 1u);
  EXPECT_EQ(tried,
            (std::vector<std::size_t>{0, 1, 2, 3, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0}));
}

// A single fast time does not decide.
TEST(TimedChoice, TheMedianCounts) {
  int runs = 0;
  const auto seconds = [&](std::size_t candidate) -> std::optional<double> {
    ++runs;
    return candidate == 0 ? (runs == 1 ? 0.97 : 1.02) : 1.0;
  };
  EXPECT_EQ(fastest_candidate(2, seconds, 100), 1u);
}

// What is remembered on disk does not depend on the process.
TEST(TimedChoice, WhatWasChosenIsRemembered) {
  const ChoiceKey choice_key = fresh_key();
  EXPECT_FALSE(remembered_candidate(choice_key, kNames));
  remember_candidate(choice_key, "fast");
  const Counters before = counters();
  EXPECT_EQ(remembered_candidate(choice_key, kNames), 2u);
  EXPECT_EQ(counters().timings, before.timings);
  // Candidates are remembered by name: their order may change, and some may disappear.
  EXPECT_EQ(remembered_candidate(choice_key, std::vector<std::string>{"fast", "usual"}), 0u);
  EXPECT_FALSE(remembered_candidate(choice_key, std::vector<std::string>{"usual"}));
  // Other hardware, another library version or another size gives another key.
  EXPECT_FALSE(remembered_candidate({"another machine", choice_key.what}, kNames));
  EXPECT_FALSE(remembered_candidate({choice_key.machine, choice_key.what + "1"}, kNames));
}

// Elapsed time counts, not the time of runs: a candidate is built and run several times.
TEST(TimedChoice, TimingIsBounded) {
  std::size_t tries = 0;
  const auto seconds = [&](std::size_t) {
    ++tries;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return 1e-6;
  };
  EXPECT_EQ(fastest_candidate(kNames.size(), seconds, 0.001), 0u);
  EXPECT_EQ(tries, 2u);  // with only one there would be no choice
}

TEST(TimedChoice, WhereNothingWorksNothingIsChosen) {
  EXPECT_FALSE(
      fastest_candidate(kNames.size(), [](std::size_t) { return std::optional<double>(); }, 1));
}

}  // namespace
}  // namespace volta
