// volta train: who owns the folder of a run, and which of its files may be removed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
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
  // The kernel has released the lock, although the file still exists.
  EXPECT_TRUE(fs::exists(path("run/run.lock")));
  EXPECT_EQ(volta({"train", "--resume", path("run"), "--epochs", "1", "--quiet"}).code, 0);
  EXPECT_FALSE(fs::exists(path("run/run.lock")));
}

// Files that appear between the first check of the folder and the lock are noticed.
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

// A run's lock is empty. Any other file of this name belongs to somebody else and stays, whether
// the run is refused because of it or for another reason, and whichever command was given.
TEST_F(CliTrainFolders, AForeignLockStays) {
  for (const char* name : {"other", "alone", "model"}) {
    fs::create_directories(path(name));
    put(std::string(name) + "/run.lock", "precious");
  }
  put("other/main.py", "x");
  put("model/config.json", R"({"model_type": "gpt2"})");
  ASSERT_EQ(volta(short_run("run")).code, 0);
  put("run/run.lock", "precious");
  for (const auto& words : {short_run("other"),
                            short_run("other", {"--force"}),
                            short_run("alone"),
                            short_run("alone", {"--force"}),
                            short_run("run"),
                            short_run("run", {"--force"}),
                            {"train", "--resume", path("run"), "--epochs", "2"}}) {
    const std::string sentence = complaint(words, 2);
    EXPECT_TRUE(has(sentence, "run.lock was not written by a run")) << sentence;
  }
  const std::string sentence = complaint({"train", "--resume", path("model")}, 2);
  EXPECT_TRUE(has(sentence, "is no configuration of a run")) << sentence;
  for (const char* name : {"other", "alone", "model", "run"})
    EXPECT_EQ(read(std::string(name) + "/run.lock"), "precious") << name;
  EXPECT_TRUE(fs::exists(path("run/config.json")));
  // Links are not followed, and pipes and folders are not taken for locks.
  const auto refused = [&] {
    const std::string words = complaint(short_run("alone"), 2);
    EXPECT_TRUE(has(words, "run.lock was not written by a run")) << words;
    return fs::exists(fs::symlink_status(path("alone/run.lock")));
  };
  fs::remove(path("alone/run.lock"));
  fs::create_symlink(put("empty", ""), path("alone/run.lock"));
  EXPECT_TRUE(refused());
  fs::remove(path("alone/run.lock"));
  ASSERT_EQ(mkfifo(path("alone/run.lock").c_str(), 0600), 0);
  EXPECT_TRUE(refused());
  fs::remove(path("alone/run.lock"));
  fs::create_directory(path("alone/run.lock"));
  EXPECT_TRUE(refused());
}

// Checking whether a run is active changes nothing, and neither does a refused folder.
TEST_F(CliTrainFolders, ALockThatARunLeftStaysWhereNoneBegins) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  put("run/run.lock", "");
  EXPECT_TRUE(has(complaint(short_run("run"), 2), "is there already"));
  EXPECT_TRUE(fs::exists(path("run/run.lock")));
  fs::create_directories(path("model"));
  put("model/run.lock", "");
  put("model/config.json", R"({"model_type": "gpt2"})");
  complaint({"train", "--resume", path("model")}, 2);
  EXPECT_TRUE(fs::exists(path("model/run.lock")));
  EXPECT_EQ(volta(short_run("run", {"--force"})).code, 0);
  EXPECT_FALSE(fs::exists(path("run/run.lock")));
}

// Other models, such as Hugging Face's, also have a config.json.
TEST_F(CliTrainFolders, ForceRemovesARunsFilesOnly) {
  fs::create_directories(path("model"));
  const std::string config = R"({"model_type": "gpt2", "n_layer": 12})";
  put("model/config.json", config);
  save({{"a", ones({2})}}, path("model/model.safetensors"));
  const std::string sentence = complaint(short_run("model", {"--force"}), 2);
  EXPECT_TRUE(has(sentence, path("model/config.json") + " was not written by a run")) << sentence;
  EXPECT_EQ(read("model/config.json"), config);
  EXPECT_EQ(count("model"), 2U);
  // Files that merely have the names of a run's files are not removed either.
  for (const char* name :
       {"metrics.jsonl", "report.html", "last.safetensors", "best.safetensors"}) {
    fs::create_directories(path("names"));
    put(std::string("names/") + name, "mine");
    const std::string words = complaint(short_run("names", {"--force"}), 2);
    EXPECT_TRUE(has(words, name + std::string(" was not written by a run"))) << words;
    EXPECT_EQ(read(std::string("names/") + name), "mine");
    fs::remove_all(path("names"));
  }
  // A run's own files are removed; other programs' TensorBoard files and the user's files stay.
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const std::size_t own = count("run");
  put("run/notes.txt", "mine");
  put("run/events.out.tfevents.1700000000.host.17.0", "of another program");
  // Names that a machine called volta, or its domain, would give.
  const std::vector<std::string> others = {
      "events.out.tfevents.1700000000.node7.volta.lan.123.0",
      "events.out.tfevents.1700000000.volta.123.0", "events.out.tfevents.1700000000.volta",
      "events.out.tfevents.1700000000.volta.0.v2", "events.out.tfevents.17.volta.0"};
  for (const std::string& name : others) put("run/" + name, "of another program");
  put("run/last.safetensors.old", "a copy");
  const std::string left = put("run/last.safetensors.0123456789abcdef.tmp", "of a killed run");
  ASSERT_EQ(volta(short_run("run", {"--force"})).code, 0);
  EXPECT_EQ(count("run"), own + 3 + others.size());
  for (const std::string& name : others)
    EXPECT_EQ(read("run/" + name), "of another program") << name;
  EXPECT_EQ(read("run/notes.txt"), "mine");
  EXPECT_EQ(read("run/events.out.tfevents.1700000000.host.17.0"), "of another program");
  EXPECT_EQ(read("run/last.safetensors.old"), "a copy");
  EXPECT_FALSE(fs::exists(left));
}

// A run creates no folders and pipes. --force notices them before it removes the first file.
TEST_F(CliTrainFolders, WhatIsNoFileIsNotRemovedAndNeitherIsTheRun) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const std::size_t files = count("run");
  const auto refused = [&](const std::string& name) {
    const std::string sentence = complaint(short_run("run", {"--force"}), 2);
    EXPECT_TRUE(has(sentence, path("run/" + name) + " was not written by a run")) << sentence;
    EXPECT_EQ(count("run"), files);
    EXPECT_TRUE(fs::exists(path("run/config.json")));
  };
  fs::remove(path("run/report.html"));
  fs::create_directory(path("run/report.html"));
  refused("report.html");
  fs::remove(path("run/report.html"));
  ASSERT_EQ(mkfifo(path("run/report.html").c_str(), 0600), 0);
  refused("report.html");
}

// A run that cannot begin removes the folders that it made, and nothing else: neither a link that
// leads nowhere nor a folder that was there.
TEST_F(CliTrainFolders, ARunThatCannotBeginRemovesItsOwnFoldersOnly) {
  fs::create_symlink("nowhere", path("link"));
  EXPECT_TRUE(has(complaint(short_run("link"), 1), "cannot make the folder"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(
      has(complaint(short_run("made/link/run/../../../link"), 1), "cannot make the folder"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_FALSE(fs::exists(path("made")));
  EXPECT_FALSE(fs::exists(path("nowhere")));
  put("file", "");
  EXPECT_TRUE(has(complaint(short_run("file/run"), 1), "Not a directory"));
  // A link to a folder is one.
  fs::create_directory(path("nowhere"));
  EXPECT_EQ(volta(short_run("link/run")).code, 0);
  EXPECT_TRUE(fs::exists(path("nowhere/run/config.json")));
}

TEST_F(CliTrainFolders, PrivateFilesStayPrivate) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const auto mode = [&](const std::string& name) {
    return static_cast<unsigned>(fs::status(path("run/" + name)).permissions());
  };
  const std::vector<std::string> names = {"config.json", "metrics.jsonl", "report.html",
                                          "last.safetensors", "best.safetensors"};
  for (const unsigned wanted : {0600U, 0640U}) {
    for (const std::string& name : names)
      fs::permissions(path("run/" + name), static_cast<fs::perms>(wanted));
    const std::string before = read("run/best.safetensors");
    const std::string epochs = wanted == 0600U ? "3" : "6";
    ASSERT_EQ(volta({"train", "--resume", path("run"), "--epochs", epochs, "--quiet"}).code, 0);
    EXPECT_NE(read("run/best.safetensors"), before);
    for (const std::string& name : names) EXPECT_EQ(mode(name), wanted) << name;
  }
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
  EXPECT_EQ(count("run"), files + 2);  // its events, and the file being written
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

TEST_F(CliTrainFolders, AFlippedBitOfAHeaderIsNamed) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  const auto change = [&](const std::string& name, const std::string& from, char to) {
    std::string bytes = read(name);
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    bytes[at + from.size() - 1] = to;
    put(name, bytes);
  };
  change("run/last.safetensors", "\"number.step\":\"30", '2');
  const auto damaged = [&](const std::vector<std::string>& words, const char* name) {
    const std::string sentence = complaint(words, 1);
    EXPECT_TRUE(has(sentence, path(name) + ": header: the file is damaged")) << sentence;
  };
  damaged({"train", "--resume", path("run"), "--epochs", "2"}, "run/last.safetensors");
  change("run/best.safetensors", "\"step\":\"30", '2');
  fs::remove(path("run/last.safetensors"));
  damaged({"eval", path("run")}, "run/best.safetensors");
}

TEST_F(CliTrainFolders, TheWeightsOfTheBestEvaluationAreThoseOfTheCheckpoint) {
  ASSERT_EQ(volta(short_run("run")).code, 0);
  // A kill between the two renames leaves this state.
  fs::rename(path("run/best.safetensors"), path("run/best.next.safetensors"));
  const auto found = json_of({"eval", path("run"), "--json"});
  EXPECT_EQ(found["checkpoint"], path("run/best.next.safetensors"));
  EXPECT_EQ(found["step"], 30);
  EXPECT_EQ(volta({"compare", path("run"), path("run/best.next.safetensors")}).code, 0);
  // A file that the checkpoint does not refer to does not count.
  save({{"fc1.weight", ones({2})}}, path("run/best.next.safetensors"),
       {.metadata = {{"recipe", "mlp"}, {"step", "60"}}});
  EXPECT_TRUE(has(complaint({"eval", path("run")}, 1), "has no best.safetensors"));
}

}  // namespace
}  // namespace volta::cli
