// volta profile: rows that add up, a trace, bad input.
#include <gtest/gtest.h>

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
  // A run of a few small steps.
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
    if (row["kind"] == "host" || row["kind"] == "range") continue;
    EXPECT_EQ(row["calls"].get<int>() % 4, 0) << row;
    shares += row["share"].get<double>();
    seconds += row["seconds"].get<double>();
  }
  EXPECT_NEAR(shares, 1, 0.01);
  const double busy = profile["busy_seconds_per_step"];
  EXPECT_NEAR(seconds / 4, busy, 0.01 * busy);
  EXPECT_LE(busy, profile["profiled_seconds_per_step"].get<double>());
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
}

TEST_F(CliProfile, SaysWhatIsWrong) {
  EXPECT_NE(complaint({"profile", "mlpp"}, 2).find("mlp"), std::string::npos);
  complaint(small({"--steps", "0"}), 2);
  complaint(small({"--trace", "/nonexistent/trace.json"}), 1);
  complaint({"profile", "mlp", "--device", "cuda:99"}, 1);
}

TEST_F(CliProfile, FitsATerminalOfTwentyColumns) {
  const Ended ended = volta_on_terminal(small(), 20);
  EXPECT_EQ(ended.code, 0);
  for (const std::string& line : lines_of(ended.out)) EXPECT_LE(line.size(), 20u + 12u) << line;
}

}  // namespace
}  // namespace volta::cli
