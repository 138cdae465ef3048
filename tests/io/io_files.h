// Folders and bytes for the tests of files.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "platform/files.h"
#include "volta/error.h"

namespace volta {

// A folder of its own for each test.
class TemporaryFolder : public testing::Test {
 protected:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "volta_io_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::size_t file_count() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      all.insert(entry.path().filename().string());
    return all;
  }
  // What the function returns in a child process, which ends without its destructors; 127 if it
  // throws. The child must never return to the test runner.
  static int in_child(const std::function<int()>& function) {
    const pid_t child = fork();
    if (child == 0) {
      int status = 127;
      try {
        status = function();
      } catch (...) {
      }
      _exit(status);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

  std::filesystem::path folder_;
};

// Returns the message of the IoError, or of another error of Volta, that the function throws.
template <class F>
std::string problem_of(F&& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

// Returns the bytes of a safetensors file.
inline std::string safetensors_bytes(const std::string& header, const std::string& data = "") {
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(header.size() >> (8 * i)));
  return file + header + data;
}

}  // namespace volta
