// Saved files survive failures: temporary files and their locks, checksums of tensors, and shards
// that save() must not remove.
#include "volta/io/durable_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/io_files.h"
#include "io/safetensors/safetensors_checksums.h"
#include "kernel/cache.h"
#include "kernel/cache_folder.h"
#include "platform/files.h"
#include "platform/temporaries.h"
#include "volta/io/checkpoint.h"
#include "volta/io/npy.h"
#include "volta/safetensors.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

using Durable = TemporaryFolder;

// In a container the command is process 1 every time, so the files of a killed process must not be
// in the way.
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
  platform::AtomicFile living(path("model"));  // removes the abandoned file
  EXPECT_FALSE(fs::exists(dead));
  living.write("new");
  EXPECT_EQ(file_count(), 6U);
  write_durably(path("model"), "another");  // a second writer of the same file
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

// The system would take the path up to the NUL, the path of another file.
TEST_F(Durable, PathsWithANulAreRefused) {
  const std::string file = put("a", "precious") + std::string("\0b", 2);
  const std::string problem = path("a") + "\\0...: the path has a NUL character";
  EXPECT_EQ(problem_of([&] { write_durably(file, "new"); }), problem);
  EXPECT_EQ(problem_of([&] { append_to_file(file, "new"); }), problem);
  EXPECT_EQ(problem_of([&] { read_regular_file(file, 100); }), problem);
  EXPECT_EQ(problem_of([&] { save({{"a", ones({1})}}, file); }), problem);
  EXPECT_EQ(problem_of([&] { save({{"a", ones({8})}}, file, {.max_shard_bytes = 1}); }), problem);
  EXPECT_EQ(problem_of([&] { save_npz({{"a", ones({1})}}, file); }), problem);
  EXPECT_EQ(problem_of([&] { load(file); }), problem);
  EXPECT_EQ(problem_of([&] { FileLock::try_lock(file); }), problem);
  EXPECT_EQ(problem_of([&] { remove_durably(file); }), problem);
  EXPECT_EQ(platform::read_file(path("a")), "precious");
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

TEST_F(Durable, ALockIsAnEmptyFileAndNothingElseIsTouched) {
  const std::string file = put("run.lock", "precious");
  EXPECT_NE(problem_of([&] { FileLock::try_lock(file); }).find("not an empty file"),
            std::string::npos);
  EXPECT_EQ(platform::read_file(file), "precious");
  fs::remove(file);
  const std::string elsewhere = put("elsewhere", "");
  fs::create_symlink(elsewhere, file);
  EXPECT_THROW(FileLock::try_lock(file), IoError);
  EXPECT_TRUE(fs::is_symlink(file));
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THROW(FileLock::try_lock(file), IoError);
  EXPECT_TRUE(fs::is_fifo(file));
  fs::remove(file);
  // A file that is written to while it is held belongs to somebody else.
  {
    const auto lock = FileLock::try_lock(file);
    ASSERT_TRUE(lock);
    put("run.lock", "precious");
  }
  EXPECT_EQ(platform::read_file(file), "precious");
}

TEST_F(Durable, ToAskForALockChangesNothing) {
  const std::string file = path("run.lock");
  EXPECT_FALSE(FileLock::is_held(file));
  EXPECT_FALSE(fs::exists(file));
  put("run.lock", "");
  EXPECT_FALSE(FileLock::is_held(file));
  EXPECT_TRUE(fs::exists(file));
  const auto lock = FileLock::try_lock(file);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(FileLock::is_held(file));
  EXPECT_TRUE(fs::exists(file));
}

// The child has copies of the parent's objects and destroys them at its end.
TEST_F(Durable, AForkedProcessLeavesItsParentsFilesAlone) {
  std::optional<FileLock> lock = FileLock::try_lock(path("run.lock"));
  std::optional<platform::AtomicFile> file(std::in_place, path("model"));
  ASSERT_TRUE(lock);
  file->write("whole");
  ASSERT_EQ(file_count(), 2U);
  EXPECT_EQ(in_child([&] {
              lock.reset();
              file.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(file_count(), 2U);
  EXPECT_TRUE(FileLock::is_held(path("run.lock")));
  file->commit();
  EXPECT_EQ(platform::read_file(path("model")), "whole");
  lock.reset();
  EXPECT_EQ(names(), std::set<std::string>{"model"});
}

TEST_F(Durable, PipesAreNotAppendedTo) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(problem_of([&] { append_to_file(path("pipe"), "line\n"); }).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(problem_of([&] { read_beginning_of_file(path("pipe"), 8); }).find("not a regular file"),
            std::string::npos);
  put("text", "0123456789");
  EXPECT_EQ(read_beginning_of_file(path("text"), 4), "0123");
  EXPECT_EQ(read_beginning_of_file(path("text"), 40), "0123456789");
}

// ---- Permissions.

TEST_F(Durable, AFileKeepsItsModeWhenItIsReplaced) {
  const auto mode = [&](const std::string& name) {
    struct stat info{};
    EXPECT_EQ(::stat(path(name).c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  const mode_t umask_before = ::umask(022);
  write_durably(path("new"), "text");
  EXPECT_EQ(mode("new"), 0644U);
  for (const mode_t wanted : {0600U, 0640U, 0664U, 0666U, 0400U, 0755U}) {
    const auto replaced = [&](const std::function<void(const std::string&)>& write) {
      put("file", "old");
      EXPECT_EQ(::chmod(path("file").c_str(), wanted), 0);
      write(path("file"));
      EXPECT_EQ(mode("file"), wanted);
      fs::remove(path("file"));
    };
    replaced([](const std::string& file) { write_durably(file, "text"); });
    replaced([](const std::string& file) { save({{"a", ones({2})}}, file); });
    replaced([](const std::string& file) { save_npy(ones({2}), file); });
    replaced([](const std::string& file) { save_npz({{"a", ones({2})}}, file); });
    replaced([](const std::string& file) { save_checkpoint(file, {}); });
    replaced([&](const std::string& file) {
      put("next", "text");
      rename_durably(path("next"), file);
    });
    // With a link, the mode of the target counts.
    replaced([&](const std::string& file) {
      fs::create_symlink(file, path("link"));
      write_durably(path("link"), "text");
      EXPECT_TRUE(fs::is_symlink(path("link")));
      fs::remove(path("link"));
    });
  }
  // No other user can read the replacement of a private file while it is written.
  put("file", "old");
  ASSERT_EQ(::chmod(path("file").c_str(), 0600), 0);
  platform::AtomicFile file(path("file"));
  for (const std::string& name : names()) EXPECT_EQ(mode(name) & 077U, name == "new" ? 044U : 0U);
  // The mode at the end counts.
  ASSERT_EQ(::chmod(path("file").c_str(), 0440), 0);
  file.commit();
  EXPECT_EQ(mode("file"), 0440U);
  ::umask(umask_before);
}

TEST_F(Durable, AFileKeepsItsOwnerWhereThatIsPermitted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  constexpr uid_t kOwner = 61234;
  constexpr gid_t kGroup = 61235;
  const std::string file = put("file", "old");
  ASSERT_EQ(::chown(file.c_str(), kOwner, kGroup), 0);
  ASSERT_EQ(::chmod(file.c_str(), 0660), 0);
  struct stat info{};
  write_durably(file, "by root");
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kOwner);
  EXPECT_EQ(info.st_gid, kGroup);
  EXPECT_EQ(info.st_mode & 0777U, 0660U);
  // A process that may not set the group gives its own group no more rights than everybody has.
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  EXPECT_EQ(in_child([&] {
              if (::setgid(kGroup + 1) != 0 || ::setuid(kOwner + 1) != 0) return 1;
              write_durably(file, "by another");
              return 0;
            }),
            0);
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kOwner + 1);
  EXPECT_EQ(info.st_gid, kGroup + 1);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
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

// Flips a bit of every byte: numbers and texts, names, shapes, offsets, and the checksums
// themselves.
TEST_F(Durable, AFlippedBitOfACheckpointsHeaderIsNamed) {
  nn::Linear model(3, 2);
  optim::Adam optimizer(model.parameters(), {.lr = 0.1});
  const std::string file = path("run.ckpt");
  save_checkpoint(file, {.model = model, .optimizer = optimizer},
                  {.numbers = {{"step", 4}}, .texts = {{"note", "a \"text\""}}});
  const SafetensorsFile saved(file);
  const std::string bytes = platform::read_file(file);
  const std::uint64_t header = saved.tensors().front().offset;
  const StateDict before = model.state_dict();
  for (std::uint64_t at = 0; at < header; ++at) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1 << at % 8);
    put("flipped", flipped);
    const std::string problem =
        problem_of([&] { load_checkpoint(path("flipped"), {.model = model}); });
    ASSERT_NE(problem.find(path("flipped")), std::string::npos)
        << problem << " byte " << at << ": " << flipped.substr(at < 20 ? 0 : at - 20, 40);
  }
  for (const auto& [name, tensor] : before)
    EXPECT_EQ(model.state_dict().at(name).to_vector<float>(), tensor.to_vector<float>());
  // Changes that leave valid JSON are found by the checksum.
  for (const auto& [from, to] : {std::pair{"\"number.step\":\"4\"", "\"number.step\":\"5\""},
                                 {"\"text.note\"", "\"text.nota\""},
                                 {"\"timed_choices\":\"{", "\"timed_choices\":\" {"},
                                 {"\"part.model\":\"2", "\"part.model\":\"3"},
                                 {"\"shape\":[2,3]", "\"shape\":[3,2]"}}) {
    std::string changed = bytes;
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    changed.replace(at, std::strlen(from), to);
    const std::size_t length = header - 8 + (changed.size() - bytes.size());
    changed = safetensors_bytes(changed.substr(8, length), changed.substr(8 + length));
    put("changed", changed);
    for (const auto& problem :
         {problem_of([&] { load_checkpoint(path("changed"), {.model = model}); }),
          problem_of([&] { load(path("changed")); })})
      EXPECT_EQ(problem,
                path("changed") + ": header: the file is damaged: its checksum does not match");
  }
}

// Checkpoints written before headers had a checksum, or before there were any checksums.
TEST_F(Durable, CheckpointsOfBeforeAreRead) {
  const std::string tensors =
      R"("generator.state":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})";
  const auto metadata = [](const std::string& more) {
    return R"({"__metadata__":{"format":"volta.checkpoint","number.step":"4",)"
           R"("part.generator":"1 tensors","timed_choices":"{}","version":"1",)"
           R"("volta":"0.0.1")" +
           more + "},";
  };
  for (const std::string more : {R"(,"volta.crc32":"{\"generator.state\":\"ecbb4b55\"}")", ""}) {
    put("old", safetensors_bytes(metadata(more) + tensors, std::string(16, '\0')));
    EXPECT_EQ(load_checkpoint(path("old"), {}).numbers.at("step"), 4) << more;
  }
  // A damaged key of the checksums: without the key the file would look like an old one.
  put("old",
      safetensors_bytes(metadata(R"(,"volta.crc33":"{}")") + tensors, std::string(16, '\0')));
  EXPECT_EQ(problem_of([&] { load_checkpoint(path("old"), {}); }),
            path("old") +
                ": the file is damaged: its metadata has \"volta.crc33\", which no checkpoint has");
}

// Metadata that is passed on with other tensors gets the checksums of those tensors.
TEST_F(Durable, ChecksumsAreThoseOfTheTensorsThatAreWritten) {
  save({{"a", ones({3})}, {"b", zeros({0})}, {"c \"d\"", arange(5).to(DType::i64)}}, path("one"),
       {.metadata = {{"volta.crc32", ""}, {"x", "y"}}});
  auto metadata = SafetensorsFile(path("one")).metadata();
  EXPECT_EQ(metadata.at("x"), "y");
  save({{"a", zeros({3})}}, path("two"), {.metadata = metadata});
  EXPECT_EQ(load(path("two")).at("a").sum().item(), 0);
  EXPECT_NE(SafetensorsFile(path("two")).metadata().at("volta.crc32"), metadata["volta.crc32"]);
  // Python's zlib.crc32 of b"1:x1:y1:a3:F321:11:3", and of twelve zero bytes.
  EXPECT_EQ(SafetensorsFile(path("two")).metadata().at("volta.crc32"),
            R"({"__metadata__":"f1241508","a":"7bd5c66f"})");
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
  EXPECT_NE(problem(R"({\"b\":\"00000000\"})").find("a checksum of \"b\", but no such tensor"),
            std::string::npos);
  EXPECT_NE(problem(R"({\"__metadata__\":7})").find("header: the file is damaged"),
            std::string::npos);
  EXPECT_NE(problem(R"({\"a\":\"00000000\"})").find("tensor \"a\": the file is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace volta
