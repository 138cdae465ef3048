// volta bench: how it measures, and comparisons with earlier results.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cli_runs.h"
#include "commands/bench_cases.h"

namespace volta::cli {
namespace {

class CliBench : public Runs {
 protected:
  static std::vector<std::string> quick(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"bench", "--quick", "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Writes an earlier result of `launch` that is faster by this factor than the one in `now`.
  std::string earlier(nlohmann::json now, double speed) const {
    auto& value = now["devices"][0]["results"][0]["value"];
    value = value.get<double>() / speed;
    return put("before.json", now.dump());
  }
};

TEST(CliBenchTiming, AStepOfAMillisecond) {
  int steps = 0;
  const Timing time = time_step(
      [&] {
        ++steps;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      Device::cpu(), 0.05);
  EXPECT_GE(time.blocks, 5);
  EXPECT_GE(steps, 40 / 4);
  EXPECT_GE(time.low, 0.001);
  EXPECT_LE(time.low, time.median);
  EXPECT_LE(time.median, time.high);
  EXPECT_LT(time.low, 0.02);  // generous, for a busy machine
}

TEST_F(CliBench, Results) {
  const auto all = json_of(quick({"--only", "launch", "--only", "matmul-f32-256", "--json"}));
  ASSERT_EQ(all["devices"].size(), 1U);
  EXPECT_EQ(all["devices"][0]["device"], "cpu");
  const auto& results = all["devices"][0]["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["name"], "matmul-f32-256");
  EXPECT_EQ(results[0]["unit"], "FLOP/s");
  EXPECT_EQ(results[0]["better"], "higher");
  EXPECT_GT(results[0]["value"], 1e8);
  EXPECT_LT(results[0]["value"], 1e14);
  EXPECT_EQ(results[1]["name"], "launch");
  EXPECT_EQ(results[1]["unit"], "s");
  EXPECT_EQ(results[1]["better"], "lower");
  EXPECT_GT(results[1]["value"], 1e-8);
  for (const auto& result : results) {
    EXPECT_GE(result["runs"], 5);
    EXPECT_LE(result["low"], result["value"]);
    EXPECT_LE(result["value"], result["high"]);
    EXPECT_FALSE(result.contains("ratio"));
  }
}

TEST_F(CliBench, ATableOfEveryCase) {
  std::vector<std::string> names;
  for (const BenchCase& one : bench_cases(Device::cpu())) names.push_back(one.name);
  EXPECT_EQ(names, (std::vector<std::string>{"copy", "elementwise", "softmax", "matmul-f32-256",
                                             "matmul-f32-512", "matmul-f32-1024", "conv2d",
                                             "launch", "train-mlp", "train-digits-cnn"}));
  const Ended ended = volta(quick({"--only", "train-mlp", "--only", "elementwise"}),
                            {.environment = {{"COLUMNS", "20"}, {"LANG", "C"}}});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.out, "/s")) << ended.out;
  for (const std::string& line : lines_of(ended.out)) EXPECT_LE(line.size(), 20U) << line;
}

TEST_F(CliBench, Comparisons) {
  const auto now = json_of(quick({"--only", "launch", "--json"}));
  // The earlier result was a hundred times as slow, so the ratio is about 100; lower values are
  // better.
  const Ended faster = volta(quick(
      {"--only", "launch", "--json", "--compare", earlier(now, 0.01), "--fail-below", "0.9"}));
  EXPECT_EQ(faster.code, 0) << faster.err;
  EXPECT_GT(nlohmann::json::parse(faster.out)["devices"][0]["results"][0]["ratio"], 2);
  const Ended slower =
      volta(quick({"--only", "launch", "--compare", earlier(now, 100), "--fail-below", "0.9"}));
  EXPECT_EQ(slower.code, 1);
  EXPECT_TRUE(slower.err.starts_with("volta bench: launch on cpu: 0.0") &&
              slower.err.ends_with(" times as fast as before, asked for 0.9\n"))
      << slower.err;
  EXPECT_TRUE(has(slower.out, "ratio")) << slower.out;
  // Without a limit the ratio is only shown.
  EXPECT_EQ(volta(quick({"--only", "launch", "--compare", path("before.json")})).code, 0);
  // A case without an earlier result has no ratio.
  EXPECT_TRUE(has(complaint(quick({"--only", "softmax", "--compare", path("before.json")}), 1),
                  "has none of the results"));
}

TEST_F(CliBench, WhatWasMeasuredBeforeIsMissed) {
  auto now = json_of(quick({"--only", "launch", "--json"}));
  auto& results = now["devices"][0]["results"];
  results[0]["value"] = 1000.0;  // in seconds, so that any result is faster
  results.push_back({{"name", "gone"}, {"what", "x"}, {"value", 1.0}});
  now["devices"].push_back({{"device", "cuda:77"},
                            {"name", "some GPU"},
                            {"results", {{{"name", "launch"}, {"what", "x"}, {"value", 1.0}}}}});
  const std::string file = put("before.json", now.dump());
  const auto judged = [&](const std::vector<std::string>& only) {
    std::vector<std::string> words = quick({"--compare", file, "--fail-below", "0.5"});
    for (const std::string& one : only) words.insert(words.end(), {"--only", one});
    return volta(words);
  };
  const Ended missed = judged({"launch", "gone"});
  EXPECT_EQ(missed.code, 1);
  EXPECT_EQ(missed.err, "volta bench: gone on cpu: measured before, and not now\n");
  EXPECT_EQ(judged({"launch"}).code, 0);  // the missing case was not requested
  const Ended without =
      volta({"bench", "--quick", "--only", "launch", "--compare", file, "--fail-below", "0.5"},
            {.environment = {{"OCL_ICD_VENDORS", "/none"}}});
  EXPECT_EQ(without.code, 1);
  EXPECT_EQ(without.err, "volta bench: launch on cuda:77: measured before, and not now\n");
}

TEST_F(CliBench, Mistakes) {
  EXPECT_TRUE(has(complaint({"bench", "--fail-below", "0.9"}, 2), "needs --compare"));
  EXPECT_TRUE(has(complaint(quick({"--only", "dance*"}), 2), "there are copy"));
  EXPECT_TRUE(has(complaint(quick({"--compare", path("none")}), 1),
                  "none: cannot open: No such file or directory"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(complaint(quick({"--compare", path("pipe")}), 1),
                  "pipe: cannot read: not a regular file"));
  for (const char* wrong :
       {"", "3", R"({"devices": 3})", R"({"devices": [3]})", R"({"devices": [{"device": 3}]})",
        R"({"devices": [{"device": "cpu", "name": "x", "results": [{"name": 3}]}]})"}) {
    EXPECT_TRUE(complaint(quick({"--compare", put("wrong.json", wrong)}), 1)
                    .ends_with("is no result of volta bench --json"))
        << wrong;
  }
  EXPECT_TRUE(has(complaint(quick({"--compare", put("x.json", "[]")}), 1), "no result of"));
  EXPECT_TRUE(has(complaint({"bench", "--device", "cuda:7"}, 1), "cuda:7"));
}

}  // namespace
}  // namespace volta::cli
