// volta train: the folder of a run, going on, and what is refused.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "cli_program.h"
#include "volta/volta.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliTrain : public Program {
 protected:
  // A run of a second.
  std::vector<std::string> small(const std::string& out,
                                 const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train", "mlp",     "--device", "cpu",   "--lr",
                                      "0.01",  "--batch", "32",       "--out", path(out)};
    for (const char* setting : {"count=960", "width=16", "workers=0", "warmup=10"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", "epochs=4"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::vector<nlohmann::json> all;
    for (const std::string& line : lines_of(read(run + "/metrics.jsonl")))
      if (!line.empty()) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

TEST_F(CliTrain, ARunHasItsFolder) {
  const Ended ended = volta(small("run"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("best test accuracy"), std::string::npos) << ended.err;
  const auto config = nlohmann::json::parse(read("run/config.json"));
  EXPECT_EQ(config["recipe"], "mlp");
  EXPECT_EQ(config["settings"]["width"], "16");
  const auto all = metrics("run");
  ASSERT_FALSE(all.empty());
  double accuracy = 0, first = 0, last = 0;
  for (const auto& line : all) {
    if (line.contains("test accuracy")) accuracy = line["test accuracy"];
    if (line.contains("loss")) (first == 0 ? first : last) = line["loss"];
  }
  EXPECT_EQ(all.back()["step"], 120);
  EXPECT_GT(accuracy, 50);
  EXPECT_LT(last, first);
  EXPECT_EQ(load(path("run/best.safetensors")).at("fc1.weight").shape(), (Shape{16, 784}));
  const std::string page = read("run/report.html");
  EXPECT_NE(page.find("fc1"), std::string::npos);
  EXPECT_NE(page.find("</html>"), std::string::npos);
  bool events = false;
  for (const auto& entry : fs::directory_iterator(path("run")))
    events = events || entry.path().filename().string().starts_with("events.out.tfevents.");
  EXPECT_TRUE(events);
}

// Ctrl-C saves, and the run that goes on ends with the bits of one that was never stopped.
TEST_F(CliTrain, CtrlCAndResume) {
  ASSERT_EQ(volta(small("whole", {"--set", "epochs=30", "--quiet"})).code, 0);
  std::vector<std::string> words = small("stopped", {"--set", "epochs=30", "--quiet"});
  words.insert(words.begin(), program());
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  for (int i = 0; i < 400 && !fs::exists(path("stopped/metrics.jsonl")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_EQ(WEXITSTATUS(status), 130);
  const std::int64_t stopped = metrics("stopped").back()["step"];
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, 900);
  EXPECT_NE(read("stopped/report.html").find("nterrupted"), std::string::npos);

  const Ended resumed = volta({"train", "--device", "cpu", "--resume", path("stopped"), "--quiet"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const Ended compared =
      volta({"compare", path("whole/last.safetensors"), path("stopped/last.safetensors")});
  EXPECT_EQ(compared.code, 0) << compared.out;
  std::int64_t before = 0;
  for (const auto& line : metrics("stopped")) {
    EXPECT_GE(line["step"].get<std::int64_t>(), before);
    before = line["step"];
  }
  EXPECT_EQ(before, 900);
}

TEST_F(CliTrain, Mistakes) {
  EXPECT_NE(complaint({"train", "digts-cnn"}, 2).find("did you mean 'digits-cnn'"),
            std::string::npos);
  EXPECT_NE(complaint({"train", "mlp", "--set", "wdith=3"}, 2).find("did you mean 'width'"),
            std::string::npos);
  EXPECT_NE(complaint({"train", "mlp", "--lr", "fast"}, 2).find("lr must be a number"),
            std::string::npos);
  EXPECT_NE(complaint({"train", "mlp", "--batch", "0"}, 2).find("at least 1"), std::string::npos);
  EXPECT_NE(complaint({"train", "mlp", "--set", "width"}, 2).find("name=value"), std::string::npos);
  EXPECT_NE(complaint({"train", "--resume", path("nothing")}, 2).find("config.json"),
            std::string::npos);
  EXPECT_NE(
      complaint({"train", "mlp", "--data", path("nothing"), "--out", path("x")}, 1).find("nothing"),
      std::string::npos);
  EXPECT_NE(complaint({"train", "resnet18-cifar", "--out", path("y")}, 2).find("--data"),
            std::string::npos);
  EXPECT_FALSE(fs::exists("runs"));
}

TEST_F(CliTrain, NothingIsOverwritten) {
  fs::create_directories(path("full"));
  put("full/notes.txt", "mine");
  EXPECT_NE(complaint(small("full"), 2).find("--force"), std::string::npos);
  EXPECT_EQ(volta(small("full", {"--force", "--set", "epochs=1", "--quiet"})).code, 0);
  EXPECT_EQ(read("full/notes.txt"), "mine");
  EXPECT_NE(complaint(small("full"), 2).find("--resume"), std::string::npos);
}

// A disk without room for checkpoints: a warning, and the training goes on to its end.
TEST_F(CliTrain, AFullDisk) {
  const Ended ended = volta(small("run"), {.largest_file = 60'000});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("no checkpoint was written, training goes on"), std::string::npos)
      << ended.err;
  EXPECT_FALSE(fs::exists(path("run/last.safetensors")));
  EXPECT_EQ(metrics("run").back()["step"], 120);
}

TEST_F(CliTrain, RecipesAreListed) {
  const nlohmann::json all = json_of({"train", "--list", "--json"});
  std::vector<std::string> names;
  for (const auto& recipe : all) names.push_back(recipe["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"digits-cnn", "mlp", "resnet18-cifar", "char-gpt",
                                             "char-lstm", "gpt2"}));
}

TEST_F(CliTrain, Text) {
  const Ended ended = volta({"train", "char-gpt", "--device", "cpu", "--steps", "20", "--set",
                             "length=24", "--set", "width=24", "--set", "heads=2", "--set",
                             "layers=1", "--batch", "4", "--out", path("gpt")});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(metrics("gpt").back().contains("validation loss"));
  EXPECT_NE(
      complaint({"train", "char-lstm", "--data", put("short.txt", "abc"), "--out", path("short")},
                2)
          .find("too short"),
      std::string::npos);
}

}  // namespace
}  // namespace volta::cli
