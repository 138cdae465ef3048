// What was saved stays: temporary files and their locks, checksums of tensors, shards that are not
// save()'s to remove.
#include "volta/io/durable_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "io/io_files.h"
#include "io/safetensors_checksums.h"
#include "kernel/cache_folder.h"
#include "kernel/emit.h"
#include "platform/files.h"
#include "platform/temporaries.h"
#include "volta/io/checkpoint.h"
#include "volta/safetensors.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

class Durable : public TemporaryFolder {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all.insert(entry.path().filename().string());
    return all;
  }
  // What the function returns in a child process, which ends without its destructors.
  static int in_child(const std::function<int()>& function) {
    const pid_t child = fork();
    if (child == 0) _exit(function());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
};

// In a container the command is process 1 every time: what a killed one left must not be in the
// way.
TEST_F(Durable, KilledUnderTheSameProcessNumber) {
  constexpr int kNotAllowed = 77;
  const auto as_first_process = [&](const std::function<int()>& function) {
    return in_child([&] {
      if (::unshare(CLONE_NEWPID) != 0) return kNotAllowed;
      return in_child([&] { return ::getpid() == 1 ? function() : kNotAllowed; });
    });
  };
  const int killed = as_first_process([&]() -> int {
    platform::AtomicFile file(path("model"));
    file.write("half");
    _exit(5);
  });
  if (killed == kNotAllowed) GTEST_SKIP() << "namespaces of processes need rights";
  ASSERT_EQ(killed, 5);
  EXPECT_EQ(file_count(), 1U);
  EXPECT_EQ(as_first_process([&] {
              try {
                write_durably(path("model"), "whole");
                return 0;
              } catch (const Error&) {
                return 1;
              }
            }),
            0);
  EXPECT_EQ(platform::read_file(path("model")), "whole");
  EXPECT_EQ(names(), std::set<std::string>{"model"});
}

TEST_F(Durable, TemporariesOfTheDeadGoAndThoseOfTheLivingStay) {
  const std::string dead = put("model.0123456789abcdef.tmp", "left");
  const std::string other = put("modelled.0123456789abcdef.tmp", "of another file");
  put("model.0123456789abcdeg.tmp", "no number");
  put("model.tmp", "a user's");
  fs::create_directory(path("model.00000000000000ff.tmp"));
  fs::create_symlink(other, path("model.00000000000000aa.tmp"));
  platform::AtomicFile living(path("model"));  // removes the dead one
  EXPECT_FALSE(fs::exists(dead));
  living.write("new");
  EXPECT_EQ(file_count(), 6U);
  write_durably(path("model"), "another");  // by a second writer of the same file
  EXPECT_EQ(file_count(), 7U);
  EXPECT_EQ(in_child([&] {
              remove_abandoned_temporaries(path("model"));
              return 0;
            }),
            0);
  EXPECT_EQ(file_count(), 7U);
  living.commit();
  EXPECT_EQ(platform::read_file(path("model")), "new");
  EXPECT_EQ(file_count(), 6U);
  EXPECT_EQ(platform::read_file(other), "of another file");
}

TEST_F(Durable, NamesOfAnyLength) {
  for (const std::size_t length : {1, 200, 234, 235, 250, 255}) {
    const std::string name(length, 'n');
    write_durably(path(name), "text");
    EXPECT_EQ(platform::read_file(path(name)), "text");
    in_child([&] {
      platform::AtomicFile file(path(name));
      return 0;
    });
    fs::remove(path(name));
  }
  EXPECT_EQ(file_count(), 0U);
  in_child([&]() -> int {
    platform::AtomicFile file(path(std::string(255, 'n')));
    _exit(0);
  });
  EXPECT_EQ(file_count(), 1U);
  write_durably(path(std::string(255, 'n')), "text");
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(Durable, TheKernelCacheKeepsNothingOfTheDead) {
  const std::string key = kernel::KernelCache::key("a", "b", "c", "d");
  const std::string dead = put(key + ".bin.0123456789abcdef.tmp", "left");
  const std::string living = put(key + ".bin.0000456789abcdef.tmp", "being written");
  put("notes.0123456789abcdef.tmp", "somebody else's");
  const int writer = ::open(living.c_str(), O_WRONLY);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  kernel::CacheFolder cache(folder_);
  cache.store(key, "binary");
  ::close(writer);
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_EQ(names().size(), 3U);
  std::string binary;
  EXPECT_TRUE(cache.load(key, binary));
}

TEST_F(Durable, ALockIsHeldByOneAndEndsWithItsProcess) {
  const std::string file = path("run.lock");
  const auto try_lock = [&] { return in_child([&] { return FileLock::try_lock(file) ? 1 : 0; }); };
  {
    const auto lock = FileLock::try_lock(file);
    ASSERT_TRUE(lock);
    EXPECT_EQ(try_lock(), 0);
    EXPECT_FALSE(FileLock::try_lock(file));
    EXPECT_TRUE(fs::exists(file));
  }
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(try_lock(), 1);
  in_child([&]() -> int {
    const auto lock = FileLock::try_lock(file);
    _exit(lock ? 1 : 0);
  });
  EXPECT_TRUE(fs::exists(file));  // nobody removed it
  EXPECT_TRUE(FileLock::try_lock(file));
}

TEST_F(Durable, AnAppendedLineIsWholeOrAbsent) {
  append_to_file(path("lines"), "first\n");
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{10, 10};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              try {
                append_to_file(path("lines"), "second\n");
              } catch (const IoError& error) {
                return std::strstr(error.what(), path("lines").c_str()) != nullptr ? 3 : 4;
              }
              return 0;
            }),
            3);
  append_to_file(path("lines"), "third\n");
  sync_file(path("lines"));
  EXPECT_EQ(platform::read_file(path("lines")), "first\nthird\n");
}

// ---- Checksums.

TEST_F(Durable, AFlippedBitOfACheckpointIsNamed) {
  nn::Linear model(3, 2);
  optim::Adam optimizer(model.parameters(), {.lr = 0.1});
  const std::string file = path("run.ckpt");
  save_checkpoint(file, {.model = model, .optimizer = optimizer}, {.numbers = {{"step", 1}}});
  const SafetensorsFile saved(file);
  EXPECT_TRUE(saved.metadata().contains("volta.crc32"));
  const std::string bytes = platform::read_file(file);
  int tensors = 0;
  for (const TensorEntry& tensor : saved.tensors()) {
    if (tensor.bytes == 0) continue;
    for (const std::uint64_t at : {tensor.offset, tensor.offset + tensor.bytes - 1}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      put("flipped", flipped);
      for (const auto& problem :
           {problem_of([&] { load_checkpoint(path("flipped"), {.model = model}); }),
            problem_of([&] { load(path("flipped")); })}) {
        EXPECT_NE(problem.find(path("flipped") + ": tensor \"" + tensor.name + "\""),
                  std::string::npos)
            << problem;
        EXPECT_NE(problem.find("damaged"), std::string::npos) << problem;
      }
    }
    ++tensors;
  }
  EXPECT_GE(tensors, 3);
  EXPECT_EQ(load_checkpoint(file, {.model = model, .optimizer = optimizer}).numbers.at("step"), 1);
}

// Metadata that is handed on with other tensors has their checksums.
TEST_F(Durable, ChecksumsAreThoseOfTheTensorsThatAreWritten) {
  save({{"a", ones({3})}, {"b", zeros({0})}, {"c \"d\"", arange(5).to(DType::i64)}}, path("one"),
       {.metadata = {{"volta.crc32", ""}, {"x", "y"}}});
  auto metadata = SafetensorsFile(path("one")).metadata();
  EXPECT_EQ(metadata.at("x"), "y");
  save({{"a", zeros({3})}}, path("two"), {.metadata = metadata});
  EXPECT_EQ(load(path("two")).at("a").sum().item(), 0);
  EXPECT_NE(SafetensorsFile(path("two")).metadata().at("volta.crc32"), metadata["volta.crc32"]);
  // crc32 of twelve zero bytes, by zlib
  EXPECT_EQ(SafetensorsFile(path("two")).metadata().at("volta.crc32"), R"({"a":"7bd5c66f"})");
  EXPECT_EQ(load(path("one")).size(), 3U);
  EXPECT_FALSE(SafetensorsFile([&] {
                 save({{"a", ones({3})}}, path("plain"));
                 return path("plain");
               }())
                   .metadata()
                   .contains("volta.crc32"));
}

TEST_F(Durable, ChecksumsThatAreNone) {
  const auto problem = [&](const std::string& text) {
    const std::string header = R"({"__metadata__":{"volta.crc32":")" + text +
                               R"("},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
    return problem_of([&] { load(put("m", safetensors_bytes(header, "xy"))); });
  };
  EXPECT_NE(problem("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(problem("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(problem("{}").find("tensor \"a\" has no checksum"), std::string::npos);
  EXPECT_NE(problem(R"({\"a\":7})").find("tensor \"a\" has no checksum"), std::string::npos);
  EXPECT_NE(problem(R"({\"a\":\"00000000\"})").find("tensor \"a\": the file is damaged"),
            std::string::npos);
}

// ---- Shards.

StateDict three() { return {{"a", ones({8})}, {"b", full({8}, 2)}, {"c", full({8}, 3)}}; }

// As Hugging Face writes them, or somebody who wants files to disappear.
TEST_F(Durable, ShardsOfOthersStay) {
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

TEST_F(Durable, ALinkInAShardsPlaceLeadsNowhere) {
  fs::create_symlink(path("elsewhere"), path("model-00001-of-00003.safetensors"));
  save(three(), path("model.safetensors"), {.max_shard_bytes = 32});
  EXPECT_FALSE(fs::exists(path("elsewhere")));
  EXPECT_TRUE(fs::is_symlink(path("model-00001-of-00003.safetensors")));
  EXPECT_EQ(load(folder_.string()).size(), 3U);
}

}  // namespace
}  // namespace volta
