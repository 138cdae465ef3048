// volta train: the folder of a run, resuming, and refused input.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "cli_program.h"
#include "cli_runs.h"
#include "volta/safetensors.h"
#include "volta/volta.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliTrain : public Runs {};

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

// Ctrl-C saves, and the resumed run ends with the same bits as one that was never stopped.
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
  EXPECT_NE(complaint({"train", "mlp", "--batch", "0"}, 2).find("from 1 to 1048576"),
            std::string::npos);
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

// On a disk without room for checkpoints there is a warning, training continues to its end, and the
// result is a failure.
TEST_F(CliTrain, AFullDisk) {
  const Ended ended = volta(small("run", {"--json"}), {.largest_file = 60'000});
  EXPECT_EQ(ended.code, 1) << ended.err;
  auto told = nlohmann::json::parse(ended.out);
  EXPECT_EQ(told["state"], "not saved");
  EXPECT_EQ(told["saved"], false);
  EXPECT_TRUE(told["saved_step"].is_null());
  EXPECT_TRUE(has(lines_of(ended.err).back(), "what was learned until step 120 is not saved"))
      << ended.err;
  EXPECT_FALSE(has(ended.err, "--resume")) << ended.err;
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

// A resumed run reports both parts: the total time, and the best evaluation of either part.
TEST_F(CliTrain, AResumedRunIsOneRun) {
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  const auto before = SafetensorsFile(path("run/last.safetensors")).metadata();
  EXPECT_EQ(before.at("text.best_name"), "test accuracy");
  EXPECT_EQ(before.at("text.best_unit"), "%");
  const double seconds = std::stod(before.at("number.seconds"));
  EXPECT_GT(seconds, 0);
  // This learning rate is so large that everything gets worse.
  const auto resumed = json_of({"train", "--resume", path("run"), "--device", "cpu", "--quiet",
                                "--set", "epochs=6", "--lr", "10", "--json"});
  EXPECT_EQ(resumed["state"], "finished");
  EXPECT_EQ(resumed["steps"], 180);
  EXPECT_GT(resumed["seconds"], seconds);
  const auto all = evaluations("run", "test accuracy");
  ASSERT_EQ(all.size(), 6U);
  double best = 0;
  std::int64_t step = 0;
  for (const auto& line : all) {
    if (line["test accuracy"].get<double>() > best) {
      best = line["test accuracy"];
      step = line["step"];
    }
  }
  EXPECT_LE(step, 120);
  EXPECT_EQ(resumed["best"]["name"], "test accuracy");
  EXPECT_EQ(resumed["best"]["value"], best);
  EXPECT_EQ(resumed["best"]["step"], step);
  EXPECT_EQ(resumed["metrics"]["test accuracy"], all.back()["test accuracy"]);
  const auto after = SafetensorsFile(path("run/last.safetensors")).metadata();
  EXPECT_GT(std::stod(after.at("number.seconds")), seconds);
  // The report says so, and the configuration has the settings of the resumed run.
  const std::string page = read("run/report.html");
  EXPECT_TRUE(has(page, "test accuracy")) << page.substr(0, 2000);
  EXPECT_FALSE(has(page, "best so far"));
  EXPECT_EQ(nlohmann::json::parse(read("run/config.json"))["settings"]["epochs"], "6");
}

TEST_F(CliTrain, OneDocument) {
  const auto all = json_of(small("run", {"--quiet", "--json"}));
  EXPECT_EQ(all["folder"], path("run"));
  EXPECT_EQ(all["steps"], 120);
  EXPECT_EQ(all["state"], "finished");
  EXPECT_EQ(all["saved"], true);
  EXPECT_EQ(all["saved_step"], 120);
  EXPECT_EQ(all["best"]["name"], "test accuracy");
  EXPECT_EQ(all["metrics"]["test loss"], evaluations("run", "test accuracy").back()["test loss"]);
}

TEST_F(CliTrain, WhatDoesNotFitTheCheckpoint) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const std::vector<std::string> resume = {"train", "--resume", path("run"), "--device", "cpu"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = resume;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string other = complaint(with({"--set", "width=300"}), 1);
  EXPECT_TRUE(
      has(other, "last.safetensors is the checkpoint of another model or of other settings"))
      << other;
  EXPECT_TRUE(has(other, "fc1.weight")) << other;
  EXPECT_LT(other.size(), 700U) << other;
  EXPECT_TRUE(has(complaint(with({"--batch", "16"}), 1), "batches of 32, not 16"));
  EXPECT_TRUE(has(complaint({"train", "mlp", "--resume", path("run")}, 2), "leave the recipe out"));
  EXPECT_TRUE(has(complaint(with({"--out", path("x")}), 2), "leave --out out"));
  fs::remove(path("run/last.safetensors"));
  EXPECT_TRUE(has(complaint(resume, 1), "has no last.safetensors"));
  put("run/last.safetensors", "garbage");
  EXPECT_TRUE(has(complaint(resume, 1), "last.safetensors"));
  put("run/config.json", "{\"recipe\": \"mlp\", \"settings\": {\"width\": 3}}");
  EXPECT_TRUE(has(complaint(resume, 2), "is no configuration of a run"));
}

TEST_F(CliTrain, NumbersThatMeanNothing) {
  EXPECT_TRUE(has(complaint(small("x", {"--steps", "-1"}), 2), "steps must be a whole number"));
  EXPECT_TRUE(has(complaint(small("x", {"--set", "lr=nan"}), 2), "lr must be a number"));
  EXPECT_TRUE(has(complaint(small("x", {"--seed", "1.5"}), 2), "seed must be a whole number"));
  EXPECT_TRUE(has(complaint(small("x", {"--lr", "1"}), 2), "--lr is given more than once"));
  for (const char* device : {"cuda:7", "gpuu"}) {
    const std::vector<std::string> words = {"train", "mlp", "--device", device, "--out", path("x")};
    EXPECT_TRUE(has(complaint(words, std::string(device) == "gpuu" ? 2 : 1), device));
  }
  EXPECT_FALSE(fs::exists(path("x")));
  // With 0 steps the number follows from the epochs.
  EXPECT_EQ(volta(small("zero", {"--steps", "0", "--set", "epochs=1", "--quiet"})).code, 0);
  EXPECT_EQ(metrics("zero").back()["step"], 30);
  const Ended large = volta(small("large", {"--set", "batch=5000", "--set", "epochs=2"}));
  EXPECT_EQ(large.code, 0) << large.err;
  EXPECT_TRUE(has(large.err, "warning: a batch of 5,000 is more than the 960 examples"))
      << large.err;
  ASSERT_FALSE(metrics("large").empty());
  EXPECT_EQ(metrics("large").back()["step"], 2);
}

// An infinite or NaN loss is reported once, with its step, and earlier good weights stay.
TEST_F(CliTrain, ALossThatIsNone) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=2"})).code, 0);
  const std::string best = read("run/best.safetensors"), last = read("run/last.safetensors");
  const Ended ended = volta({"train", "--resume", path("run"), "--device", "cpu", "--lr", "1e30",
                             "--set", "clip=0", "--set", "epochs=4", "--json"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  auto told = nlohmann::json::parse(ended.out);
  EXPECT_EQ(told["state"], "diverged");
  EXPECT_EQ(told["saved"], false);
  EXPECT_EQ(told["saved_step"], 60);
  EXPECT_EQ(told["steps"], 120);
  const std::string sentence = lines_of(ended.err).back();
  EXPECT_TRUE(has(sentence, "the weights at step 120 are worthless, the loss is not finite: " +
                                path("run/last.safetensors") + " is of step 60; try --lr 0.0001"))
      << sentence;
  const std::string page = read("run/report.html");
  EXPECT_TRUE(has(page, "Failed at step 120"));
  EXPECT_TRUE(has(page, "worthless"));
  std::vector<std::string> warnings;
  for (const std::string& line : lines_of(ended.err))
    if (has(line, "warning")) warnings.push_back(line);
  ASSERT_EQ(warnings.size(), 1U) << ended.err;
  // The suggestion is a tenth of the recipe's usual rate, not of 1e30.
  EXPECT_TRUE(has(warnings[0], ": checkpoints from before are kept; try --lr 0.0001"))
      << warnings[0];
  EXPECT_TRUE(has(warnings[0], "--set clip=1")) << warnings[0];
  EXPECT_EQ(read("run/best.safetensors"), best);
  EXPECT_EQ(read("run/last.safetensors"), last);
  // The run can be resumed from there.
  EXPECT_EQ(volta({"train", "--resume", path("run"), "--device", "cpu", "--lr", "0.001", "--set",
                   "epochs=3", "--quiet"})
                .code,
            0);
  EXPECT_EQ(metrics("run").back()["step"], 90);
}

TEST_F(CliTrain, FoldersThatCannotBeWritten) {
  fs::create_directories(path("closed"));
  fs::permissions(path("closed"), fs::perms(0555));
  EXPECT_TRUE(
      has(complaint(small("closed/run"), 1, {.as_nobody = true}), "cannot make the folder"));
  EXPECT_TRUE(
      has(complaint(small("closed"), 1, {.as_nobody = true}), "closed: cannot write into it"));
  put("file", "");
  EXPECT_TRUE(has(complaint(small("file"), 2), "is there already and no folder"));
  EXPECT_TRUE(has(complaint(small("file/run"), 1), "cannot make the folder"));
  // The disk is full from the start.
  EXPECT_TRUE(has(complaint(small("run"), 1, {.largest_file = 400}), "config.json"));
  EXPECT_FALSE(fs::exists(path("run")));
}

// A narrow terminal, no terminal, and character sets.
TEST_F(CliTrain, Terminals) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  for (const char* locale : {"C", "", "no_SUCH.locale"}) {
    const Ended ended = volta(small(std::string("run") + locale, {"--set", "epochs=1"}),
                              {.environment = {{"LANG", locale}, {"LC_ALL", locale}}});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_FALSE(has(ended.err, "\x1b")) << ended.err;
    for (const char c : ended.err) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << ended.err;
  }
  const Ended narrow = volta_on_terminal(small("narrow", {"--set", "epochs=1"}), 20);
  EXPECT_EQ(narrow.code, 0) << narrow.out;
  // The bar rewrites its line; permanent output is wrapped.
  for (const std::string& line : lines_of(narrow.out)) {
    const std::string shown =
        line.substr(line.rfind("\x1b[K") == std::string::npos ? 0 : line.rfind("\x1b[K") + 3);
    const std::size_t first = shown.find_first_not_of(' ');
    if (first != std::string::npos && shown.find(' ', first) == std::string::npos) continue;
    EXPECT_LE(shown.size(), 20U) << shown;
  }
}

}  // namespace
}  // namespace volta::cli
