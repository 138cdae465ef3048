// volta explain: it describes the steps that actually run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli_runs.h"

namespace volta::cli {
namespace {

class CliExplain : public Runs {
 protected:
  nlohmann::json explain(std::vector<std::string> more) const {
    std::vector<std::string> words = {"explain",  "mlp",   "--device",  "cpu",
                                      "--json",   "--set", "count=120", "--set",
                                      "width=16", "--set", "workers=0"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words);
  }
  static bool computes(const nlohmann::json& plan, const std::string& operation) {
    for (const auto& step : plan["steps"])
      if (has(step["what"], operation)) return true;
    return false;
  }
};

TEST_F(CliExplain, ATrainingStep) {
  const auto plan = explain({});
  EXPECT_EQ(plan["step"], "training");
  EXPECT_EQ(plan["batch"], 64);
  const int kernels = plan["kernels"], calls = plan["library_calls"];
  EXPECT_EQ(plan["steps"].size(), static_cast<std::size_t>(kernels + calls));
  // Three products forward and five backward, because the images need no gradient.
  EXPECT_EQ(calls, 8);
  for (const char* operation : {"relu", "cross_entropy", "adam", "total_norm"})
    EXPECT_TRUE(computes(plan, operation)) << operation;
  EXPECT_EQ(plan["ran"]["launches"], kernels);
  EXPECT_EQ(plan["ran"]["library_calls"], calls);
  std::uint64_t read = 0;
  for (const auto& step : plan["steps"]) read += step["bytes_read"].get<std::uint64_t>();
  EXPECT_EQ(plan["bytes_read"], read);
  // At least weights, moments and gradients are read once: 13,002 numbers each.
  EXPECT_GT(read, 4U * 4 * 13'002);
  EXPECT_GE(plan["ran"]["peak_memory"].get<std::uint64_t>(), 4U * 4 * 13'002);
  EXPECT_FALSE(plan["results"].empty());
}

TEST_F(CliExplain, Settings) {
  EXPECT_EQ(explain({"--batch", "10"})["batch"], 10);
  EXPECT_FALSE(computes(explain({"--set", "clip=0"}), "total_norm"));
}

TEST_F(CliExplain, Inference) {
  const auto plan = explain({"--eval"});
  EXPECT_EQ(plan["step"], "inference");
  EXPECT_EQ(plan["library_calls"], 3);
  EXPECT_LE(plan["kernels"], 3);
  EXPECT_FALSE(computes(plan, "adam"));
  EXPECT_EQ(plan["ran"]["launches"], plan["kernels"]);
}

TEST_F(CliExplain, Text) {
  const std::vector<std::string> words = {"explain",   "mlp",   "--device", "cpu",
                                          "--results", "--set", "count=120"};
  const Ended wide = volta(words);
  EXPECT_EQ(wide.code, 0) << wide.err;
  for (const char* word : {"library calls", "intermediates", "peak memory", "adam", "recorded at"})
    EXPECT_TRUE(has(wide.out, word)) << word;
  const Ended narrow = volta(words, {.environment = {{"COLUMNS", "20"}, {"LANG", "C"}}});
  for (const std::string& line : lines_of(narrow.out)) EXPECT_LE(line.size(), 20U) << line;
}

TEST_F(CliExplain, Mistakes) {
  EXPECT_TRUE(has(complaint({"explain", "mpl"}, 2), "did you mean 'mlp'"));
  EXPECT_TRUE(has(complaint({"explain", "mlp", "--batch", "x"}, 2), "batch must be"));
  EXPECT_TRUE(has(complaint({"explain", "resnet18-cifar", "--device", "cpu"}, 2), "--data"));
}

}  // namespace
}  // namespace volta::cli
