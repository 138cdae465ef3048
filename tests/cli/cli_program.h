// Runs the volta command and collects its results.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace volta::cli {

std::string source_tree();
std::string driver_folder();  // folder of failing_driver.cpp's library
std::string program();        // the command itself
std::string shim();           // path of ../shims/file_faults_shim.cpp's library

struct Ended {
  int code = -1;
  std::string out, err;
  std::uint64_t peak_bytes = 0;  // peak memory
};

struct How {
  std::map<std::string, std::string> environment = {};  // in addition to a small one; "" unsets
  std::string out_file = {};                            // replaces the file that is read back
  std::uint64_t largest_file = 0;                       // in bytes; 0 means no limit
  bool as_nobody = false;                               // if that is possible
  std::string input = {};                               // text for the standard input
  bool ignore_sigpipe = false;                          // as some parents set it
  bool without_output = false;                          // as with >&-
};

// A folder of its own for each test, in which the command runs.
class Program : public testing::Test {
 protected:
  Program();
  ~Program() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const;

  Ended volta(const std::vector<std::string>& arguments, const How& how = {}) const;
  // Runs the command with a pipe as standard output; `during` may read from the pipe and must close
  // it.
  Ended volta_during(const std::vector<std::string>& arguments,
                     const std::function<void(pid_t process, int out)>& during,
                     const How& how = {}) const;
  // Whether this system has terminals (/dev/pts), which some root file systems lack.
  static bool has_terminals();
  // Runs the command with a terminal of this width as standard output; `out` receives the output.
  Ended volta_on_terminal(const std::vector<std::string>& arguments, int columns,
                          const How& how = {}) const;
  // Returns the single JSON document that the command printed; fails if there is anything else.
  nlohmann::json json_of(const std::vector<std::string>& arguments, const How& how = {}) const;
  // Fails unless there is one line on stderr, without control characters, nothing on stdout, and
  // this exit code. Returns the line.
  std::string complaint(const std::vector<std::string>& arguments, int code,
                        const How& how = {}) const;

  std::filesystem::path folder_;

 private:
  std::string input_of(const How& how) const;
};

std::vector<std::string> lines_of(const std::string& text);

}  // namespace volta::cli
