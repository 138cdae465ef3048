// volta profile: rows that add up, a trace, bad input.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli_program.h"

namespace volta::cli {
namespace {

using nlohmann::json;

class CliProfile : public Program {
 protected:
  // Options for a run of a few small steps.
  static std::vector<std::string> small(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"profile",  "mlp", "--device", "cpu",       "--steps", "4",
                                    "--warmup", "2",   "--set",    "count=256", "--batch", "16"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(CliProfile, RowsAddUpToTheTimeAtWork) {
  const json profile = json_of(small({"--json"}));
  EXPECT_EQ(profile["recipe"], "mlp");
  EXPECT_EQ(profile["steps"], 4);
  double shares = 0, seconds = 0;
  std::set<std::string> kinds;
  for (const json& row : profile["rows"]) {
    kinds.insert(row["kind"]);
    if (row["kind"] == "host" || row["kind"] == "range") {
      EXPECT_TRUE(row["bound_by"].is_null()) << row;
      EXPECT_TRUE(row["peak_share"].is_null()) << row;
      continue;
    }
    EXPECT_TRUE(row["bound_by"] == "memory" || row["bound_by"] == "arithmetic") << row;
    EXPECT_TRUE(row["peak_share"].is_null() || row["peak_share"] > 0) << row;
    EXPECT_EQ(row["calls"].get<int>() % 4, 0) << row;
    shares += row["share"].get<double>();
    seconds += row["seconds"].get<double>();
  }
  EXPECT_NEAR(shares, 1, 0.01);
  const double busy = profile["busy_seconds_per_step"];
  EXPECT_NEAR(seconds / 4, busy, 0.01 * busy);
  EXPECT_LE(busy, profile["profiled_seconds_per_step"].get<double>());
  EXPECT_EQ(profile["dropped"], 0);
  EXPECT_GT(profile["peak_memory"].get<double>(), 1e5);
  for (const char* kind : {"kernel", "matmul", "host", "range"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST_F(CliProfile, WritesATraceOnceUnlessForced) {
  const std::string trace = path("trace.json");
  const Ended ended = volta(small({"--trace", trace, "--top", "3"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("others"), std::string::npos) << ended.out;
  EXPECT_NE(ended.err.find("trace: " + trace), std::string::npos) << ended.err;
  std::ifstream file(trace);
  const json events = json::parse(file)["traceEvents"];
  int ranges = 0;
  for (const json& event : events) ranges += event["ph"] == "X" && event["name"] == "step";
  EXPECT_EQ(ranges, 4);
  const std::string refused = complaint(small({"--trace", trace}), 2);
  EXPECT_NE(refused.find("--force"), std::string::npos) << refused;
  EXPECT_EQ(volta(small({"--trace", trace, "--force", "--quiet"})).code, 0);
  std::filesystem::create_symlink(path("nowhere"), path("link.json"));
  EXPECT_NE(complaint(small({"--trace", path("link.json")}), 2).find("--force"), std::string::npos);
}

// An unwritable trace is reported before the work, which would take hours here.
TEST_F(CliProfile, TheTraceIsLookedAtFirst) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> words = small({"--trace", path("no/trace.json")});
  words[5] = "1000000";
  EXPECT_NE(complaint(words, 1).find("there is no folder"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// No peak is known for a CPU, and an empty column is not shown.
TEST_F(CliProfile, ThePeakIsShownWhereItIsKnown) {
  bool known = false;
  const json profile = json_of(small({"--json"}));
  for (const json& row : profile["rows"]) known = known || !row["peak_share"].is_null();
  EXPECT_EQ(volta(small()).out.find(" peak ") != std::string::npos, known);
}

TEST_F(CliProfile, SaysWhatIsWrong) {
  EXPECT_NE(complaint({"profile", "mlpp"}, 2).find("mlp"), std::string::npos);
  complaint(small({"--steps", "0"}), 2);
  complaint(small({"--trace", "/nonexistent/trace.json"}), 1);
  complaint({"profile", "mlp", "--device", "cuda:99"}, 1);
}

TEST_F(CliProfile, FitsATerminalOfTwentyColumns) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  const Ended ended = volta_on_terminal(small(), 20);
  EXPECT_EQ(ended.code, 0);
  for (const std::string& line : lines_of(ended.out)) EXPECT_LE(line.size(), 20u + 12u) << line;
}

}  // namespace
}  // namespace volta::cli
