// Tests that need a process of their own with another environment, because devices are probed once
// and settings read once. The test starts its own program again.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

extern char** environ;

namespace volta::testing_child {

namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

inline std::string test_name() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// A new folder, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "volta_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path_, fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

inline bool is_child() { return std::getenv("VOLTA_TEST_CHILD") != nullptr; }

// Runs `body` in a child process with a changed environment; its expectations count for this test.
template <class Body>
void in_child(const Environment& changes, Body body) {
  if (is_child()) {
    body();
    return;
  }
  const std::string filter = "--gtest_filter=" + test_name();
  Environment variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text = *each;
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  // The child is a single complete test on the CPU, whatever this process is.
  for (const char* name : {"VOLTA_TEST_DEVICE", "VOLTA_TEST_NVRTC", "VOLTA_LOG", "VOLTA_FALLBACK",
                           "GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_SHARD_STATUS_FILE"}) {
    variables.erase(name);
  }
  variables["VOLTA_TEST_CHILD"] = test_name();
  for (const auto& [name, value] : changes) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", argument = filter, brief = "--gtest_brief=1";
  char* arguments[] = {program.data(), argument.data(), brief.data(), nullptr};

  const Folder folder;
  const std::string output = folder / "output";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_CREAT | O_WRONLY, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failure =
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  ASSERT_EQ(failure, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  std::ifstream file(output);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the child says:\n" << text;
}

}  // namespace volta::testing_child
