// Files and options that ask the command for too much.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli_runs.h"
#include "volta/creation.h"
#include "volta/io.h"

namespace volta::cli {
namespace {

class CliFilesHostile : public Runs {};

TEST_F(CliFilesHostile, ConfigurationsAreNotRecursedInto) {
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  const std::string good = read("run/config.json"), deep(100'000, '[');
  for (const std::string& text :
       {"{\"recipe\":" + deep, "{\"a\":" + deep + std::string(100'000, ']') + "}"}) {
    put("run/config.json", text);
    EXPECT_TRUE(has(complaint({"train", "--resume", path("run")}, 1), "is nested deeper than 64"));
    EXPECT_TRUE(has(complaint({"eval", path("run")}, 1), "is nested deeper than 64"));
    EXPECT_TRUE(has(complaint({"generate", path("run")}, 1), "is nested deeper than 64"));
  }
  put("run/config.json", good + std::string(2 << 20, ' '));
  EXPECT_TRUE(has(complaint({"train", "--resume", path("run")}, 1), "at most 1048576 are read"));
  put("run/config.json", good);
  std::ofstream(path("run/metrics.jsonl"), std::ios::app)
      << "{\"step\":1,\"a\":" << deep << std::string(100'000, ']') << "}\n"
      << "{\"step\":1,\"a\":[1]}\n";
  const Ended ended = volta({"train", "--resume", path("run"), "--set", "epochs=40"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.err, "2 lines are no")) << ended.err;
}

TEST_F(CliFilesHostile, SettingsThatSizeSomethingHaveAnEnd) {
  for (const char* setting : {"layers", "width", "heads", "length", "batch", "workers"}) {
    const std::string message =
        complaint({"train", "char-gpt", "--set", std::string(setting) + "=4294967296"}, 2);
    EXPECT_TRUE(has(message, std::string(setting) + " must be a whole number from ")) << message;
  }
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  std::string config = read("run/config.json");
  const std::size_t at = config.find("\"batch\": \"");
  ASSERT_NE(at, std::string::npos);
  config.insert(at + 10, "4294967296");
  put("run/config.json", config);
  EXPECT_TRUE(
      has(complaint({"train", "--resume", path("run")}, 2), "batch must be a whole number"));
}

TEST_F(CliFilesHostile, GlobsEnd) {
  save({{std::string(2000, 'a'), ones({1})}}, path("a.safetensors"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(has(complaint({"convert", path("a.safetensors"), path("b.safetensors"), "--rename",
                             "*a*a*a*a*a*a*b=x*"},
                            1),
                  "no tensor has such a name"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
  ASSERT_EQ(
      volta({"convert", path("a.safetensors"), path("b.safetensors"), "--rename", "aa*=b*"}).code,
      0);
  EXPECT_EQ(load(path("b.safetensors")).begin()->first, "b" + std::string(1998, 'a'));
}

TEST_F(CliFilesHostile, PipesAreNotWaitedFor) {
  std::filesystem::create_directory(path("run"));
  ASSERT_EQ(mkfifo(path("run/config.json").c_str(), 0600), 0);
  for (const auto& words : {std::vector<std::string>{"train", "--resume", path("run")},
                            {"eval", path("run")},
                            {"generate", path("run")},
                            {"bench", "--compare", path("run/config.json")}}) {
    EXPECT_TRUE(has(complaint(words, 1), "not a regular file")) << words[0];
  }
}

}  // namespace
}  // namespace volta::cli
