// volta train, killed at every call that changes a file of its folder: the folder remains usable,
// and the resumed run ends with the same bits as a run that was never killed.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cli_runs.h"
#include "volta/creation.h"
#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kKilled = 1000 + SIGKILL;

class CliKills : public Runs {
 protected:
  // 36 steps with an evaluation every nine, each better than the one before.
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train",   "mlp", "--device", "cpu",     "--lr",   "0.02",
                                    "--batch", "32",  "--out",    path(out), "--quiet"};
    for (const char* setting : {"count=384", "width=8", "workers=0", "warmup=2", "epochs=3",
                                "evaluate_every=9", "seed=2"})
      all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  How with_shim(const std::string& run, std::size_t at, const std::string& log = {}) const {
    return {.environment = {{"LD_PRELOAD", shim()},
                            {"VOLTA_SHIM_FOLDER", path(run)},
                            {"VOLTA_SHIM_AT", std::to_string(at)},
                            {"VOLTA_SHIM_ACT", "kill"},
                            {"VOLTA_SHIM_LOG", log}}};
  }
  // Returns the calls of a run, such as "rename <file>".
  std::vector<std::string> calls_of(const std::vector<std::string>& arguments,
                                    const std::string& run) const {
    EXPECT_EQ(volta(arguments, with_shim(run, 0, path("calls"))).code, 0);
    std::vector<std::string> calls = lines_of(read("calls"));
    fs::remove(path("calls"));
    return calls;
  }
  // In `make test`: every rename, the call after it, and every tenth of the other calls.
  static std::vector<std::size_t> chosen(const std::vector<std::string>& calls) {
    const bool all = std::getenv("VOLTA_TEST_FULL") != nullptr;
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const bool named =
          calls[i].starts_with("rename") || (i > 0 && calls[i - 1].starts_with("rename"));
      if (all || named || i % 10 == 0) some.push_back(i + 1);
    }
    return some;
  }

  struct Contents {
    std::vector<std::pair<std::string, std::string>> tensors;
    std::string step, best, best_step;
    bool operator==(const Contents&) const = default;
  };
  Contents contents(const std::string& file) const {
    Contents all;
    if (!fs::exists(path(file))) return all;
    const SafetensorsFile opened(path(file));
    for (const TensorEntry& tensor : opened.tensors()) {
      const auto bytes = opened.data(tensor);
      all.tensors.emplace_back(
          tensor.name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    const auto text = [&](const char* key) {
      const auto found = opened.metadata().find(key);
      return found == opened.metadata().end() ? std::string() : found->second;
    };
    all.step = text("number.step") + text("step");
    all.best = text("number.best");
    all.best_step = text("number.best_step");
    return all;
  }
  std::set<std::string> names(const std::string& run) const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path(run))) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("events.out.tfevents.")) all.insert(name);
    }
    return all;
  }
  // At any moment, eval reads the best weights that the checkpoint refers to.
  void expect_usable(const std::string& run) const {
    if (!fs::exists(path(run + "/last.safetensors"))) return;
    const Contents last = contents(run + "/last.safetensors");
    ASSERT_FALSE(last.best_step.empty());
    const auto found = json_of({"eval", path(run), "--json"});
    EXPECT_EQ(std::to_string(found["step"].get<int>()), last.best_step);
    EXPECT_EQ(found["metrics"]["test accuracy"].get<double>(), std::stod(last.best));
  }
  void go_on(const std::string& run, const std::vector<std::string>& begin) const {
    const bool begun = fs::exists(path(run + "/config.json"));
    const Ended ended =
        volta(begun ? std::vector<std::string>{"train", "--resume", path(run), "--quiet"} : begin);
    // A run that was killed after its report has nothing left to do.
    if (ended.code == 2 && has(ended.err, "finished already")) return;
    EXPECT_EQ(ended.code, 0) << ended.err;
  }
  void expect_same(const std::string& run, const std::string& whole) const {
    EXPECT_EQ(contents(run + "/last.safetensors"), contents(whole + "/last.safetensors"));
    EXPECT_EQ(contents(run + "/best.safetensors"), contents(whole + "/best.safetensors"));
    EXPECT_EQ(evaluations(run, "test accuracy"), evaluations(whole, "test accuracy"));
    EXPECT_EQ(names(run), names(whole));
    EXPECT_TRUE(has(read(run + "/report.html"), "content=\"finished 36\""));
    expect_usable(run);
  }
  // A killed "run" is usable, continues to the result of "whole", and can be removed.
  void expect_recovery() const {
    expect_usable("run");
    go_on("run", words("run"));
    expect_same("run", "whole");
    fs::remove_all(path("run"));
  }
};

TEST_F(CliKills, AtEveryCall) {
  const std::vector<std::string> calls = calls_of(words("whole"), path("whole"));
  ASSERT_GT(calls.size(), 100U);
  ASSERT_EQ(evaluations("whole", "test accuracy").size(), 4U);
  EXPECT_EQ(contents("whole/best.safetensors").step, "36");
  EXPECT_GE(std::ranges::count_if(calls,
                                  [](const std::string& call) {
                                    return call.starts_with("rename") &&
                                           call.ends_with("best.safetensors");
                                  }),
            2);
  for (const std::size_t at : chosen(calls)) {
    SCOPED_TRACE("killed at call " + std::to_string(at) + ": " + calls[at - 1]);
    ASSERT_EQ(volta(words("run"), with_shim("run", at)).code, kKilled);
    expect_recovery();
    if (HasFailure()) break;
  }
}

// A resumed run is killed, too.
TEST_F(CliKills, TwiceInARow) {
  const std::vector<std::string> calls = calls_of(words("whole"), path("whole"));
  const std::vector<std::size_t> some = chosen(calls);
  for (std::size_t i = 3; i < some.size(); i += 5) {
    ASSERT_EQ(volta(words("run"), with_shim("run", some[i])).code, kKilled);
    const std::size_t then = 1 + some[i] * 7 % 60;
    SCOPED_TRACE(calls[some[i] - 1] + ", then at call " + std::to_string(then));
    if (fs::exists(path("run/config.json")))
      volta({"train", "--resume", path("run"), "--quiet"}, with_shim("run", then));
    expect_recovery();
    if (HasFailure()) break;
  }
}

// --force either leaves the old run unchanged or has ended it, and never mixes both.
TEST_F(CliKills, WhileTheOldRunIsRemoved) {
  ASSERT_EQ(volta(words("whole")).code, 0);
  ASSERT_EQ(volta(words("old", {"--set", "seed=4"})).code, 0);
  fs::copy(path("old"), path("run"));
  const std::vector<std::string> calls = calls_of(words("run", {"--force"}), path("run"));
  std::size_t begun = 0;
  while (begun < calls.size() && !has(calls[begun], "rename")) ++begun;
  ASSERT_LT(begun, calls.size());
  ASSERT_GE(begun, 6U);  // the files of the old run are removed one by one
  for (std::size_t at = 1; at <= begun + 1; ++at) {
    fs::remove_all(path("run"));
    fs::copy(path("old"), path("run"));
    SCOPED_TRACE("killed at call " + std::to_string(at) + ": " + calls[at - 1]);
    ASSERT_EQ(volta(words("run", {"--force"}), with_shim("run", at)).code, kKilled);
    if (fs::exists(path("run/config.json"))) {
      EXPECT_EQ(read("run/config.json"), read("old/config.json"));
      EXPECT_EQ(contents("run/last.safetensors"), contents("old/last.safetensors"));
    }
    EXPECT_EQ(volta(words("run", {"--force"})).code, 0);
    expect_same("run", "whole");
    if (HasFailure()) break;
  }
}

// The disk is full at one of the writes: the existing file remains, and the message names it.
TEST_F(CliKills, AFullDiskAtEveryCall) {
  save({{"a", arange(2000)}, {"b", ones({100})}}, path("in.safetensors"));
  fs::create_directories(path("out"));
  const std::string out = path("out/model.safetensors");
  save({{"old", ones({3})}}, out);
  const std::string before = read("out/model.safetensors");
  const std::vector<std::string> convert = {"convert", path("in.safetensors"), out, "--force"};
  How how = with_shim("out", 0, path("calls"));
  how.environment["VOLTA_SHIM_ACT"] = "full";
  ASSERT_EQ(volta(convert, how).code, 0);
  const std::vector<std::string> calls = lines_of(read("calls"));
  how.environment["VOLTA_SHIM_LOG"] = "";
  std::size_t writes = 0;
  for (std::size_t at = 1; at <= calls.size(); ++at) {
    const bool renamed = at > 1 && calls[at - 2].starts_with("rename");
    if (renamed) break;  // later calls concern the new file
    save({{"old", ones({3})}}, out);
    how.environment["VOLTA_SHIM_AT"] = std::to_string(at);
    const std::string words = complaint(convert, 1, how);
    EXPECT_TRUE(has(words, out + ": cannot ") && has(words, "No space left on device")) << words;
    EXPECT_EQ(read("out/model.safetensors"), before) << calls[at - 1];
    EXPECT_EQ(names("out").size(), 1U) << calls[at - 1];
    ++writes;
  }
  EXPECT_GE(writes, 5U);
}

}  // namespace
}  // namespace volta::cli
