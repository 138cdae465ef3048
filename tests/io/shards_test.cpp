// Models in shards: whose files a save removes, what a killed one leaves, several at once.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "io/io_files.h"
#include "platform/files.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

using Shards = TemporaryFolder;

StateDict three() { return {{"a", ones({8})}, {"b", full({8}, 2)}, {"c", full({8}, 3)}}; }

// As Hugging Face writes them, or somebody who wants files to disappear.
TEST_F(Shards, ShardsOfOthersStay) {
  save(three(), path("model.safetensors"), {.max_shard_bytes = 32});
  ASSERT_EQ(file_count(), 4U);
  put("precious.safetensors", "mine");
  const std::string index = R"({"metadata":{"total_size":96},"weight_map":{)"
                            R"("a":"model-00001-of-00003.safetensors",)"
                            R"("b":"model-00002-of-00003.safetensors",)"
                            R"("c":"model-00003-of-00003.safetensors"}})";
  put("model.safetensors.index.json", index);
  save(load(path("model.safetensors.index.json")), path("model.safetensors"));
  EXPECT_EQ(file_count(), 6U);
  EXPECT_EQ(platform::read_file(path("model.safetensors.index.json")), index);
  fs::remove(path("model.safetensors"));
  // An index that says it is save()'s, of files that are not.
  fs::create_symlink(path("precious.safetensors"), path("model-00004-of-00004.safetensors"));
  put("model.safetensors.index.json",
      R"({"metadata":{"writer":"volta"},"weight_map":{"a":"precious.safetensors",)"
      R"("b":"model-00004-of-00004.safetensors","c":"other-00001-of-00001.safetensors"}})");
  put("other-00001-of-00001.safetensors", "mine");
  save(three(), path("model.safetensors"));
  EXPECT_TRUE(fs::is_symlink(path("model-00004-of-00004.safetensors")));
  EXPECT_EQ(platform::read_file(path("precious.safetensors")), "mine");
  EXPECT_EQ(platform::read_file(path("other-00001-of-00001.safetensors")), "mine");
}

// What one file would not replace is not removed for several either.
TEST_F(Shards, ShardsTakeThePlaceOfFilesOnly) {
  const std::string model = path("model.safetensors");
  const auto refused = [&] {
    for (const std::uint64_t bytes : {0, 32})
      EXPECT_NE(problem_of([&] {
                  save(three(), model, {.max_shard_bytes = bytes});
                }).find("not a regular file, which a new one could replace"),
                std::string::npos);
    EXPECT_EQ(file_count(), 1U);  // no shard was written
  };
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  refused();
  fs::remove(model);
  fs::create_directory(model);
  refused();
  fs::remove(model);
  fs::create_directory(path("model.safetensors.index.json"));
  EXPECT_NE(
      problem_of([&] { save(three(), model, {.max_shard_bytes = 32}); }).find("not a regular file"),
      std::string::npos);
  EXPECT_EQ(file_count(), 1U);
  fs::remove(path("model.safetensors.index.json"));
  // A link goes, what it leads to stays.
  save({{"a", ones({1})}}, path("elsewhere"));
  fs::create_symlink(path("elsewhere"), model);
  save(three(), model, {.max_shard_bytes = 32});
  EXPECT_FALSE(fs::is_symlink(model));
  EXPECT_EQ(load(path("elsewhere")).size(), 1U);
  EXPECT_EQ(load(path("model.safetensors.index.json")).size(), 3U);
}

TEST_F(Shards, ANameThatIsTakenMeanwhileIsNotReplaced) {
  platform::AtomicFile file(path("shard"), {.replace = false});
  file.write("late");
  put("shard", "first");
  EXPECT_THROW(file.commit(), platform::NameTaken);
  EXPECT_EQ(platform::read_file(path("shard")), "first");
  platform::AtomicFile other(path("other"), {.replace = false});
  other.write("whole");
  other.commit();
  EXPECT_EQ(platform::read_file(path("other")), "whole");
}

// Each has shards of its own, and whichever index is there at the end names a whole set.
TEST_F(Shards, ProcessesThatSaveShardsToOnePath) {
  const std::string model = path("model.safetensors");
  constexpr int kRounds = 20, kProcesses = 4;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (int number = 1; number <= kProcesses; ++number) {
      const pid_t child = fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      const auto own = static_cast<double>(number);
      try {
        save({{"a", full({8}, own)}, {"b", full({8}, own)}, {"c", full({8}, own)}}, model,
             {.max_shard_bytes = 32});
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    const StateDict state = load(path("model.safetensors.index.json"));
    ASSERT_EQ(state.size(), 3U);
    for (const auto& [name, tensor] : state)
      EXPECT_EQ(tensor.to_vector<float>(), state.at("a").to_vector<float>()) << name << round;
  }
}

// Each process is killed in the middle of a shard: by the limit on the size of files.
TEST_F(Shards, ShardsOfAKilledSaveGo) {
  const std::string model = path("model.safetensors");
  const StateDict large = {{"a", ones({8})}, {"b", full({8}, 2)}, {"c", ones({1 << 16})}};
  const auto killed = [&] {
    return in_child([&] {
      const rlimit none = {0, 0}, most = {1 << 16, 1 << 16};
      ::setrlimit(RLIMIT_CORE, &none);
      ::setrlimit(RLIMIT_FSIZE, &most);
      ::signal(SIGXFSZ, SIG_DFL);  // whoever started the tests may ignore it
      save(large, model, {.max_shard_bytes = 32});
      return 0;
    });
  };
  save(three(), model, {.max_shard_bytes = 32});
  const std::set<std::string> before = names();
  ASSERT_EQ(killed(), 128);
  // Two shards, what there is of the third, and the index.
  EXPECT_EQ(file_count(), before.size() + 4);
  EXPECT_EQ(load(folder_.string()).at("b").to_vector<float>(), std::vector<float>(8, 2));
  ASSERT_EQ(killed(), 128);
  EXPECT_EQ(file_count(), before.size() + 4);  // the second removed what the first left
  save(three(), model, {.max_shard_bytes = 32});
  EXPECT_EQ(file_count(), before.size());
  EXPECT_EQ(load(folder_.string()).size(), 3U);
  ASSERT_EQ(killed(), 128);
  save(three(), model);
  EXPECT_EQ(names(), std::set<std::string>{"model.safetensors"});
}

// An index that a killed process left names shards of others too: those that are in use, and files
// that are no shards.
TEST_F(Shards, ShardsInUseSurviveTheIndexOfAKilledSave) {
  const std::string model = path("model.safetensors"), index = model + ".index.json";
  save(three(), model, {.max_shard_bytes = 32});
  const auto index_of = [](const std::vector<std::string>& files) {
    std::string text;
    for (const std::string& file : files)
      text += (text.empty() ? "\"" : ",\"") + file + "\":\"" + file + "\"";
    return R"({"metadata":{"writer":"volta"},"weight_map":{)" + text + "}}";
  };
  for (const char* name :
       {"model-v2-00001-of-00002.safetensors", "model-v2-00002-of-00002.safetensors", "mine",
        "other-00001-of-00001.safetensors"})
    put(name, "content");
  platform::AtomicFile living(index);
  living.write(index_of({"model-v2-00001-of-00002.safetensors"}));
  put("model.safetensors.index.json.0123456789abcdef.tmp",
      index_of({"model-v2-00001-of-00002.safetensors", "model-v2-00002-of-00002.safetensors",
                "mine", "other-00001-of-00001.safetensors", "model-00001-of-00003.safetensors"}));
  save(three(), path("other.safetensors"));  // another model
  EXPECT_TRUE(fs::exists(path("model-v2-00002-of-00002.safetensors")));
  EXPECT_EQ(in_child([&] {
              save(three(), model, {.max_shard_bytes = 32});
              return 0;
            }),
            0);
  EXPECT_FALSE(fs::exists(path("model-v2-00002-of-00002.safetensors")));
  EXPECT_FALSE(fs::exists(path("model.safetensors.index.json.0123456789abcdef.tmp")));
  for (const char* name :
       {"model-v2-00001-of-00002.safetensors", "mine", "other-00001-of-00001.safetensors"})
    EXPECT_TRUE(fs::exists(path(name))) << name;
  EXPECT_EQ(load(index).size(), 3U);
}

TEST_F(Shards, ALinkInAShardsPlaceLeadsNowhere) {
  fs::create_symlink(path("elsewhere"), path("model-00001-of-00003.safetensors"));
  save(three(), path("model.safetensors"), {.max_shard_bytes = 32});
  EXPECT_FALSE(fs::exists(path("elsewhere")));
  EXPECT_TRUE(fs::is_symlink(path("model-00001-of-00003.safetensors")));
  EXPECT_EQ(load(folder_.string()).size(), 3U);
}

}  // namespace
}  // namespace volta
