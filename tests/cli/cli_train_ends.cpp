// volta train: how runs begin, end and resume when something is wrong.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cli_runs.h"
#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliTrainEnds : public Runs {
 protected:
  std::vector<std::string> resume(const std::string& run,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train", "--resume", path(run)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::map<std::string, std::string> files(const std::string& run) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(path(run))) {
      const std::string name = entry.path().filename().string();
      all[name] = read(run + "/" + name);
    }
    return all;
  }
  // Changes a value in a run's checkpoint.
  void set_value(const std::string& run, const std::string& key, const std::string& value) const {
    const std::string file = path(run + "/last.safetensors");
    auto metadata = SafetensorsFile(file).metadata();
    metadata[key] = value;
    save(load(file), file + ".new", {.metadata = metadata});
    fs::rename(file + ".new", file);
  }
  void edit_config(const std::string& run,
                   const std::function<void(nlohmann::ordered_json&)>& edit) const {
    auto config = nlohmann::ordered_json::parse(read(run + "/config.json"));
    edit(config);
    put(run + "/config.json", config.dump(2));
  }
  // Starts a run that takes a minute, sends the signals after its first measurement, and waits.
  Ended stopped_by(const std::vector<int>& signals, const std::string& run) const {
    return volta_during(small(run, {"--set", "epochs=20000", "--set", "evaluate_every=100000"}),
                        [&](pid_t process, int out) {
                          for (int i = 0; i < 1000 && !fs::exists(path(run + "/metrics.jsonl"));
                               ++i)
                            std::this_thread::sleep_for(std::chrono::milliseconds(10));
                          for (const int signal : signals) {
                            kill(process, signal);
                            std::this_thread::sleep_for(std::chrono::milliseconds(100));
                          }
                          close(out);
                        });
  }
};

TEST_F(CliTrainEnds, ForceRemovesTheOldRunWhenTheNewOneBegins) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const auto before = files("run");
  ASSERT_GE(before.size(), 6U);
  EXPECT_TRUE(has(complaint(small("run", {"--force", "--data", path("none")}), 1), "none"));
  EXPECT_EQ(files("run"), before);
  ASSERT_EQ(volta(small("run", {"--force", "--quiet", "--set", "epochs=2"})).code, 0);
  EXPECT_EQ(files("run").size(), before.size());
  EXPECT_EQ(metrics("run").back()["step"], 60);
  // A file that is not removed is named; the run is not removed either, and no other run begins.
  fs::remove(path("run/report.html"));
  fs::create_directories(path("run/report.html/inside"));
  EXPECT_TRUE(has(complaint(small("run", {"--force"}), 2), "report.html was not written by a run"));
  EXPECT_TRUE(fs::exists(path("run/config.json")));
}

TEST_F(CliTrainEnds, EpochsOrSteps) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "It was the best of times. ";
  const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",   "char-lstm", "--device", "cpu",      "--data", put("text", text),
        "--set",   "width=8",   "--set",    "layers=1", "--set",  "length=24",
        "--batch", "4",         "--out",    path(out),  "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  // The 1404 training characters have 115 windows of 24, one every 12: 29 batches of 4.
  ASSERT_EQ(volta(run("epochs", {"--epochs", "1"})).code, 0);
  EXPECT_EQ(metrics("epochs").back()["step"], 29);
  ASSERT_EQ(volta(run("steps", {"--set", "steps=3"})).code, 0);
  EXPECT_EQ(metrics("steps").back()["step"], 3);
  // A run that has done its steps continues in whole epochs.
  ASSERT_EQ(volta(resume("steps", {"--epochs", "1", "--quiet"})).code, 0);
  EXPECT_EQ(metrics("steps").back()["step"], 29);
  EXPECT_TRUE(has(complaint(run("both", {"--epochs", "2", "--steps", "3"}), 2), "give one"));
  EXPECT_TRUE(has(complaint(run("both", {"--set", "epochs=2", "--steps", "3"}), 2), "give one"));
  EXPECT_FALSE(fs::exists(path("both")));
  EXPECT_TRUE(has(complaint(run("many", {"--epochs", "9223372036854775807"}), 2),
                  "epochs must be a whole number"));
}

TEST_F(CliTrainEnds, AFinishedRunStaysAsItIs) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const auto before = files("run");
  EXPECT_TRUE(has(complaint(resume("run"), 2),
                  "finished already at step 30, and 30 are asked for: give more --epochs or"));
  EXPECT_TRUE(has(complaint(resume("run", {"--steps", "3"}), 2), "finished already at step 30"));
  EXPECT_EQ(files("run"), before);
}

// Reported losses precede an update; the effect of the last update shows in the evaluation.
TEST_F(CliTrainEnds, AnEvaluationThatIsNone) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const std::string last = read("run/last.safetensors"), best = read("run/best.safetensors");
  const Ended ended = volta(resume(
      "run", {"--steps", "31", "--lr", "1e30", "--set", "warmup=0", "--set", "clip=0", "--json"}));
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_TRUE(metrics("run").back().contains("test loss"));
  EXPECT_TRUE(metrics("run").back()["test loss"].is_string()) << metrics("run").back();
  double loss = 0;
  for (const auto& line : metrics("run"))
    if (line.contains("loss") && line["step"] == 31) loss = line["loss"];
  EXPECT_GT(loss, 0);  // which also means that it is finite
  EXPECT_EQ(nlohmann::json::parse(ended.out)["state"], "diverged");
  EXPECT_TRUE(has(ended.err, "the test loss is ")) << ended.err;
  EXPECT_EQ(read("run/last.safetensors"), last);
  EXPECT_EQ(read("run/best.safetensors"), best);
}

TEST_F(CliTrainEnds, OtherTextsInTheAlphabetOfTheRun) {
  std::string all, few, other;
  for (int i = 0; i < 60; ++i) {
    all += "It was the best of times. ";
    few += "this is what it is. ";
    other += "it was \xc3\xbc and Zoo. ";
  }
  for (const char* recipe : {"char-lstm", "char-gpt"}) {
    const std::string run = recipe;
    ASSERT_EQ(volta(text_run(recipe, run, {"--quiet", "--data", put("all", all)})).code, 0);
    const auto alphabet = nlohmann::json::parse(read(run + "/config.json"))["alphabet"];
    const auto found = json_of({"eval", path(run), "--data", put("few", few), "--json"});
    EXPECT_GT(found["metrics"]["validation loss"].get<double>(), 0);
    const std::string words = complaint({"eval", path(run), "--data", put("other", other)}, 1);
    EXPECT_TRUE(has(words, path("other") + " has '\xc3\xbc' 'n' 'd' 'Z'")) << words;
    EXPECT_TRUE(has(complaint(resume(run, {"--steps", "30", "--data", path("other")}), 1),
                    "the text that the model learned from"));
    EXPECT_EQ(nlohmann::json::parse(read(run + "/config.json"))["alphabet"], alphabet);
  }
  // The same letters in other amounts, with as many examples: the model keeps its own numbering.
  std::string fewer = all;
  for (char& c : fewer)
    if (c == 'b') c = 'h';
  ASSERT_EQ(
      volta(resume("char-lstm", {"--steps", "30", "--data", put("fewer", fewer), "--quiet"})).code,
      0);
  EXPECT_TRUE(has(nlohmann::json::parse(read("char-lstm/config.json"))["alphabet"], "b"));
}

TEST_F(CliTrainEnds, TheDeviceOfTheRun) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  edit_config("run", [](auto& config) { config["device"] = "opencl:77"; });
  for (const auto& words : {resume("run", {"--set", "epochs=2"}), {"eval", path("run")}}) {
    const std::string sentence = complaint(words, 1);
    EXPECT_TRUE(has(sentence, "the run was made on opencl:77, which cannot be used here"))
        << sentence;
    EXPECT_TRUE(has(sentence, "--device")) << sentence;
  }
  const Ended other = volta(resume("run", {"--device", "cpu", "--set", "epochs=2"}));
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(has(other.err, "until now it ran on opencl:77")) << other.err;
  EXPECT_EQ(nlohmann::json::parse(read("run/config.json"))["device"], "cpu");
  const auto again = json_of(resume("run", {"--set", "epochs=3", "--quiet", "--json"}));
  EXPECT_EQ(again["device"], "cpu");
  EXPECT_EQ(json_of({"eval", path("run"), "--json"})["device"], "cpu");
}

TEST_F(CliTrainEnds, StepsOfACheckpointThatAreNone) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const auto words = resume("run", {"--set", "epochs=2"});
  for (const char* step : {"nan", "1e300", "-3", "2.5"}) {
    set_value("run", "number.step", step);
    const std::string sentence = complaint(words, 1);
    EXPECT_TRUE(has(sentence, "last.safetensors: step is ")) << sentence;
    EXPECT_TRUE(has(sentence, step == std::string("1e300") ? "e+300" : step)) << sentence;
  }
  set_value("run", "number.step", "30");
  set_value("run", "number.best_step", "inf");
  EXPECT_TRUE(has(complaint(words, 1), "best_step is inf"));
}

TEST_F(CliTrainEnds, NamesThatAreNone) {
  EXPECT_TRUE(has(complaint({"train", "--resume", ""}, 2), "--resume needs a folder"));
  EXPECT_TRUE(has(complaint({"train", "mlp", "--out", ""}, 2), "--out needs a folder"));
  EXPECT_FALSE(fs::exists("runs"));
}

TEST_F(CliTrainEnds, NumbersAndBytesThatAreUnusual) {
  std::vector<std::string> words = small("tiny", {"--quiet", "--set", "epochs=1"});
  *std::ranges::find(words, "0.01") = "1e-310";
  EXPECT_EQ(volta(words).code, 0);
  const Ended ended = volta(small("bytes\xff", {"--quiet", "--set", "epochs=1", "--json"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(ended.out)["folder"], path("bytes\xef\xbf\xbd"));
  EXPECT_EQ(volta(resume("bytes\xff", {"--quiet", "--set", "epochs=2"})).code, 0);
}

TEST_F(CliTrainEnds, FilesOfARunThatAreBroken) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const std::size_t measured = metrics("run").size();
  std::ofstream(path("run/metrics.jsonl"), std::ios::app)
      << "{\"step\": \"x\"}\n[1]\n{\"step\": 12, \"lo";
  const Ended ended = volta(resume("run", {"--set", "epochs=2"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.err, "metrics.jsonl: 3 lines are no measurements and left out"))
      << ended.err;
  EXPECT_GT(metrics("run").size(), measured);  // and each line can be read
  std::string cut = read("run/metrics.jsonl");
  cut.pop_back();  // cuts off the end of the last line
  put("run/metrics.jsonl", cut);
  const std::size_t before = metrics("run").size();
  ASSERT_EQ(volta(resume("run", {"--quiet", "--set", "epochs=3"})).code, 0);
  EXPECT_GT(metrics("run").size(), before);
  const std::string file = path("run/config.json");
  for (const char* text : {"[]", "{\"recipe\"", ""}) {
    put("run/config.json", text);
    for (const auto& words : {resume("run"), {"eval", path("run")}}) {
      const std::string sentence = complaint(words, 1);
      EXPECT_TRUE(has(sentence, file + ": is no ")) << sentence;
      EXPECT_FALSE(has(sentence, "json.exception")) << sentence;
    }
  }
  put("run/config.json", "{\"recipe\": \"mlp\", \"settings\": {\"wdth\": \"3\"}}");
  EXPECT_TRUE(has(complaint(resume("run"), 2), file + ": there is no setting 'wdth'"));
  put("run/config.json", "{\"recipe\": [], \"settings\": {}}");
  EXPECT_TRUE(has(complaint(resume("run"), 2), "is no configuration of a run: it names no recipe"));
  fs::remove(file);
  fs::create_directories(file);
  EXPECT_TRUE(has(complaint(resume("run"), 1), file + ": is a folder"));
}

TEST_F(CliTrainEnds, FoldersThatCannotBeRead) {
  fs::create_directories(path("closed/run"));
  fs::permissions(path("closed"), fs::perms(0700));
  if (geteuid() != 0) fs::permissions(path("closed"), fs::perms(0));
  fs::permissions(folder_, fs::perms(0777));
  const How nobody{.as_nobody = true};
  for (const auto& words : {resume("closed"),
                            {"eval", path("closed")},
                            small("closed"),
                            small("closed/run", {"--force"})})
    EXPECT_TRUE(has(complaint(words, 1, nobody), "Permission denied"));
  fs::permissions(path("closed"), fs::perms(0755));
}

// If measurements cannot be rewritten, training continues.
TEST_F(CliTrainEnds, AFullDiskWhenARunGoesOn) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  std::string long_file;
  for (int i = 0; i < 3000; ++i)
    long_file += R"({"step": 1, "loss": 2.5})"
                 "\n";
  put("run/metrics.jsonl", long_file + R"({"step": 99, "loss": 2.5})"
                                       "\n");
  const Ended ended = volta(resume("run", {"--set", "epochs=2"}), {.largest_file = 60'000});
  EXPECT_TRUE(has(ended.err, "warning: the run goes on, but what it goes on with is not written"))
      << ended.err;
  EXPECT_TRUE(has(ended.err, "step 60:")) << ended.err;
  // No file longer than the limit can be written.
  const Ended full = volta(resume("run", {"--set", "epochs=3"}), {.largest_file = 4000});
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_TRUE(has(full.err, "step 90:")) << full.err;
  EXPECT_TRUE(has(lines_of(full.err).back(), "what was learned until step 90 is not saved"))
      << full.err;
  // An unwritable folder is noticed before training.
  fs::permissions(path("run"), fs::perms(0555));
  EXPECT_TRUE(has(complaint(resume("run", {"--set", "epochs=3"}), 1, {.as_nobody = true}),
                  "Permission denied"));
}

TEST_F(CliTrainEnds, CommandsToCopy) {
  const Ended ended = stopped_by({SIGINT}, "a run's");
  EXPECT_EQ(ended.code, 130) << ended.err;
  const std::string name = folder_.string() + "/a run'\\''s'";
  EXPECT_TRUE(has(ended.err, "go on with: volta train --resume '" + name)) << ended.err;
  const auto in_page = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 5)
      text.replace(at, 1, "&#39;");
    return text;
  };
  const std::string page = read("a run's/report.html");
  EXPECT_TRUE(has(page, in_page("volta train --resume '" + name)));
  EXPECT_FALSE(has(page, "volta eval"));  // there was no evaluation
  ASSERT_EQ(volta(small("it's", {"--quiet", "--set", "epochs=1"})).code, 0);
  EXPECT_TRUE(
      has(read("it's/report.html"), in_page("volta eval '" + folder_.string() + "/it'\\''s'")));
}

TEST_F(CliTrainEnds, EvaluationsOnATerminal) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  const Ended ended = volta_on_terminal(small("run", {"--set", "epochs=3"}), 100);
  EXPECT_EQ(ended.code, 0) << ended.out;
  for (const char* step : {"30", "60", "90"})
    EXPECT_TRUE(has(ended.out, "\x1b[Kstep " + std::string(step) + ": test accuracy")) << ended.out;
  for (const auto& line : metrics("run")) EXPECT_GT(line.value("lr", 1.0), 0) << line;
}

TEST_F(CliTrainEnds, SignalsThatAskToStop) {
  const Ended ended = stopped_by({SIGTERM}, "run");
  EXPECT_EQ(ended.code, 143) << ended.err;
  EXPECT_TRUE(has(ended.err, "go on with")) << ended.err;
  EXPECT_TRUE(fs::exists(path("run/last.safetensors")));
  // A signal that was ignored from the start, as after nohup or in a script's background job, stays
  // ignored.
  const auto before = std::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(stopped_by({SIGINT, SIGTERM}, "background").code, 143);
  std::signal(SIGINT, before);
}

TEST_F(CliTrainEnds, StoppedBeforeItBegan) {
  const Ended ended = volta_during(
      {"train", "mlp", "--device", "cpu", "--out", path("new/run"), "--set", "count=600000"},
      [&](pid_t process, int out) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        kill(process, SIGINT);
        close(out);
      });
  EXPECT_EQ(ended.code, 1000 + SIGINT) << ended.err;
  EXPECT_FALSE(fs::exists(path("new")));
  // A folder without a configuration cannot be resumed.
  fs::create_directories(path("begun"));
  put("begun/metrics.jsonl", "{\"step\": 1}\n");
  const std::string sentence = complaint(small("begun"), 2);
  EXPECT_FALSE(has(sentence, "--resume")) << sentence;
  EXPECT_TRUE(has(sentence, "--force")) << sentence;
}

// The report has as many kernels as `volta explain` counts.
TEST_F(CliTrainEnds, TheReportHasTheWholeStep) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const auto step = json_of({"explain", "mlp", "--device", "cpu", "--batch", "32", "--set",
                             "count=960", "--set", "width=16", "--json"});
  std::size_t kernels = 0;
  for (const auto& one : step["steps"]) kernels += one["kind"] == "kernel" ? 1 : 0;
  EXPECT_GT(kernels, 10U);
  EXPECT_TRUE(has(read("run/report.html"), std::to_string(kernels) + " kernels, ")) << kernels;
}

}  // namespace
}  // namespace volta::cli
