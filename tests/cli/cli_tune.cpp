// volta tune: what it times, stores and exports, and what it refuses.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli_program.h"

namespace volta::cli {
namespace {

using nlohmann::json;

class CliTune : public Program {
 protected:
  // Options for one layer that is large enough to be tuned, on the first OpenCL device.
  static std::vector<std::string> wide(std::vector<std::string> more = {}) {
    std::vector<std::string> all = {"tune",  "mlp",        "--device", "opencl:0", "--steps",
                                    "1",     "--batch",    "16",       "--set",    "count=16",
                                    "--set", "width=1024", "--set",    "workers=0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  How with_cache() const {
    return {.environment = {{"VOLTA_CACHE_DIR", path("cache")}, {"HOME", path("home")}}};
  }
  bool has_opencl() const {
    return volta({"info", "--json"}).out.find("opencl:0") != std::string::npos;
  }
};

TEST_F(CliTune, TimesOnceAndKeepsIt) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device";
  const json first = json_of(
      wide({"--seconds", "2", "--quiet", "--json", "--export", path("table.def")}), with_cache());
  EXPECT_EQ(first["device"], "opencl:0");
  EXPECT_EQ(first["folder"], path("cache"));
  EXPECT_GT(first["seconds"].get<double>(), 0);
  ASSERT_GE(first["choices"].size(), 1u);
  const json& choice = first["choices"][0];
  EXPECT_EQ(choice["source"], "timed");
  EXPECT_GT(choice["usual_seconds"].get<double>(), 0);
  EXPECT_LE(choice["chosen_seconds"].get<double>(), choice["usual_seconds"].get<double>());
  std::ifstream in(path("table.def"));
  const std::string table{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(table.find("VOLTA_SHIPPED_CHOICE(\""), 0u) << table;
  EXPECT_NE(table.find(choice["chosen"].get<std::string>()), std::string::npos) << table;

  const json second = json_of(wide({"--seconds", "0", "--quiet", "--json"}), with_cache());
  EXPECT_EQ(second["seconds"], 0);
  EXPECT_EQ(second["choices"][0]["source"], "remembered");
  EXPECT_EQ(second["choices"][0]["chosen"], choice["chosen"]);
  EXPECT_TRUE(second["choices"][0]["usual_seconds"].is_null());

  const Ended shown = volta(wide({"--seconds", "0"}), with_cache());
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("mlp on opencl:0"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("remembered"), std::string::npos) << shown.out;
}

TEST_F(CliTune, TheFileIsLookedAtBeforeTheWork) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device";
  put("there.def", "");
  EXPECT_NE(complaint(wide({"--export", path("there.def")}), 2).find("there.def"),
            std::string::npos);
  complaint(wide({"--export", path("missing/file.def")}), 1);
}

TEST_F(CliTune, RefusesWhatCannotBeTuned) {
  EXPECT_EQ(complaint({"tune", "--device", "cpu"}, 2),
            "volta tune: the CPU's kernels have one schedule each, there is nothing to time: give "
            "--device a GPU");
  complaint({"tune", "mlp", "--device", "cuda:99"}, 1);
  complaint({"tune", "mlp", "--seconds", "-1"}, 2);
  if (has_opencl()) {
    EXPECT_NE(complaint({"tune", "mlpp", "--device", "opencl:0"}, 2).find("mlp"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace volta::cli
