// volta train: whose the folder of a run is, and what of it may be removed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cli_runs.h"
#include "volta/creation.h"
#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliTrainFolders : public Runs {
 protected:
  std::vector<std::string> short_run(const std::string& out,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = small(out, {"--quiet", "--set", "epochs=1"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::size_t count(const std::string& run) const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path(run)), {}));
  }
};

TEST_F(CliTrainFolders, OneRunAtATime) {
  const Ended first = volta_during(
      small("run", {"--set", "epochs=20000", "--set", "evaluate_every=100000", "--quiet"}),
      [&](pid_t process, int out) {
        for (int i = 0; i < 1000 && !fs::exists(path("run/metrics.jsonl")); ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        for (const auto& words : {short_run("run"), short_run("run", {"--force"})}) {
          const std::string sentence = complaint(words, 2);
          EXPECT_TRUE(has(sentence, path("run") + ": a run is under way in it")) << sentence;
        }
        const std::string sentence = complaint({"train", "--resume", path("run")}, 2);
        EXPECT_TRUE(has(sentence, "another process trains into this folder")) << sentence;
        EXPECT_TRUE(fs::exists(path("run/config.json")));
        kill(process, SIGKILL);
        close(out);
      });
  EXPECT_EQ(first.code, 1000 + SIGKILL);
  // The kernel has released the lock, although its file is there.
  EXPECT_TRUE(fs::exists(path("run/run.lock")));
  EXPECT_EQ(volta({"train", "--resume", path("run"), "--epochs", "1", "--quiet"}).code, 0);
  EXPECT_FALSE(fs::exists(path("run/run.lock")));
}

// What is in the folder between the look at it and the lock is seen, too.
TEST_F(CliTrainFolders, TwoThatBeginTogether) {
  const auto begin = [&](const std::string& seed) {
    return short_run("run", {"--set", "seed=" + seed, "--set", "count=9600"});
  };
  Ended second;
  const Ended first = volta_during(begin("1"), [&](pid_t /*process*/, int out) {
    second = volta(begin("2"));
    close(out);
  });
  EXPECT_EQ(std::min(first.code, second.code), 0) << first.err << second.err;
  EXPECT_EQ(std::max(first.code, second.code), 2) << first.err << second.err;
  const auto config = nlohmann::json::parse(read("run/config.json"));
  EXPECT_EQ(config["settings"]["seed"], first.code == 0 ? "1" : "2");
}

// A model of Hugging Face's, for instance, also has a config.json.
TEST_F(CliTrainFolders, ForceRemovesARunsFilesOnly) {
  fs::create_directories(path("model"));
  const std::string config = R"({"model_type": "gpt2", "n_layer": 12})";
  put("model/config.json", config);
  save({{"a", ones({2})}}, path("model/model.safetensors"));
  const std::string sentence = complaint(short_run("model", {"--force"}), 2);
  EXPECT_TRUE(has(sentence, path("model/config.json") + " was not written by a run")) << sentence;
  EXPECT_EQ(read("model/config.json"), config);
  EXPECT_EQ(count("model"), 2U);
  // Neither are files that only have the names of a run's.
  for (const char* name :
       {"metrics.jsonl", "report.html", "last.safetensors", "best.safetensors"}) {
    fs::create_directories(path("names"));
    put(std::string("names/") + name, "mine");
    const std::string words = complaint(short_run("names", {"--force"}), 2);
    EXPECT_TRUE(has(words, name + std::string(" was not written by a run"))) << words;
    EXPECT_EQ(read(std::string("names/") + name), "mine");
    fs::remove_all(path("names"));
  }
  // Of a run's folder its own files go; TensorBoard's files of others and the user's stay.
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const std::size_t own = count("run");
  put("run/notes.txt", "mine");
  put("run/events.out.tfevents.1700000000.host.17.0", "of another program");
  put("run/last.safetensors.old", "a copy");
  const std::string left = put("run/last.safetensors.0123456789abcdef.tmp", "of a killed run");
  ASSERT_EQ(volta(short_run("run", {"--force"})).code, 0);
  EXPECT_EQ(count("run"), own + 3);
  EXPECT_EQ(read("run/notes.txt"), "mine");
  EXPECT_EQ(read("run/events.out.tfevents.1700000000.host.17.0"), "of another program");
  EXPECT_EQ(read("run/last.safetensors.old"), "a copy");
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(CliTrainFolders, WhatAKilledRunLeftGoesWhenItGoesOn) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const std::size_t files = count("run");
  const auto left = [&](const std::string& name) {
    return put("run/" + name + ".0123456789abcdef.tmp", "half");
  };
  for (const char* name : {"config.json", "metrics.jsonl", "report.html", "best.safetensors"})
    left(name);
  const std::string written = left("last.safetensors");
  const int writer = ::open(written.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  ASSERT_EQ(volta({"train", "--resume", path("run"), "--epochs", "2", "--quiet"}).code, 0);
  EXPECT_EQ(count("run"), files + 2);  // its events, and what is being written
  EXPECT_TRUE(fs::exists(written));
  ::close(writer);
}

TEST_F(CliTrainFolders, AFlippedBitIsNamed) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  for (const char* name : {"last.safetensors", "best.safetensors"}) {
    const std::string file = path(std::string("run/") + name);
    const SafetensorsFile saved(file);
    const TensorEntry tensor = saved.tensors()[saved.tensors().size() / 2];
    std::fstream bytes(file, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(static_cast<std::streamoff>(tensor.offset + tensor.bytes / 2));
    const char flipped = static_cast<char>(bytes.get() ^ 16);
    bytes.seekp(static_cast<std::streamoff>(tensor.offset + tensor.bytes / 2));
    bytes.put(flipped);
    bytes.close();
    const bool last = name == std::string("last.safetensors");
    const std::string sentence =
        last ? complaint({"train", "--resume", path("run"), "--epochs", "2"}, 1)
             : complaint({"eval", path("run")}, 1);
    EXPECT_TRUE(has(sentence, file + ": tensor \"" + tensor.name + "\": the file is damaged"))
        << sentence;
  }
}

TEST_F(CliTrainFolders, TheWeightsOfTheBestEvaluationAreThoseOfTheCheckpoint) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  // As a kill between the two leaves it.
  fs::rename(path("run/best.safetensors"), path("run/best.next.safetensors"));
  const auto found = json_of({"eval", path("run"), "--json"});
  EXPECT_EQ(found["checkpoint"], path("run/best.next.safetensors"));
  EXPECT_EQ(found["step"], 30);
  EXPECT_EQ(volta({"compare", path("run"), path("run/best.next.safetensors")}).code, 0);
  // A file that the checkpoint does not know of is none.
  save({{"fc1.weight", ones({2})}}, path("run/best.next.safetensors"),
       {.metadata = {{"recipe", "mlp"}, {"step", "60"}}});
  EXPECT_TRUE(has(complaint({"eval", path("run")}, 1), "has no best.safetensors"));
}

}  // namespace
}  // namespace volta::cli
