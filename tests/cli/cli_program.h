// Runs the volta command and keeps what it did.
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
std::string driver_folder();  // of failing_driver.cpp
std::string program();        // the command itself
std::string shim();           // of ../shims/file_faults_shim.cpp

struct Ended {
  int code = -1;
  std::string out, err;
  std::uint64_t peak_bytes = 0;  // of memory
};

struct How {
  std::map<std::string, std::string> environment = {};  // besides a small one; "" unsets
  std::string out_file = {};                            // instead of a file that is read back
  std::uint64_t largest_file = 0;                       // in bytes; 0: no limit
  bool as_nobody = false;                               // where that is possible
  std::string input = {};                               // of its standard input
  bool ignore_sigpipe = false;                          // as some parents have it
  bool without_output = false;                          // as of >&-
};

// A folder of its own for each test, and the command run in it.
class Program : public testing::Test {
 protected:
  Program();
  ~Program() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string put(const std::string& name, const std::string& bytes) const;

  Ended volta(const std::vector<std::string>& arguments, const How& how = {}) const;
  // With its standard output a pipe, which `during` may read from and close; must close.
  Ended volta_during(const std::vector<std::string>& arguments,
                     const std::function<void(pid_t process, int out)>& during,
                     const How& how = {}) const;
  // Whether this system gives terminals (/dev/pts): a root without them has none.
  static bool has_terminals();
  // With its standard output a terminal so wide; `out` has what was shown.
  Ended volta_on_terminal(const std::vector<std::string>& arguments, int columns,
                          const How& how = {}) const;
  // The one document that it printed; fails where there is something else.
  nlohmann::json json_of(const std::vector<std::string>& arguments, const How& how = {}) const;
  // Fails unless there is one line on stderr, without control characters, nothing on stdout, and
  // the code. Returns the line.
  std::string complaint(const std::vector<std::string>& arguments, int code,
                        const How& how = {}) const;

  std::filesystem::path folder_;

 private:
  std::string input_of(const How& how) const;
};

std::vector<std::string> lines_of(const std::string& text);

}  // namespace volta::cli
