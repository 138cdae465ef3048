// A child process that reports line by line. It may crash or hang; its parent does not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace volta::cli {

class Child {
 public:
  // Runs this very program with the arguments and, as the last one, the number of the descriptor to
  // report to. What it prints itself is kept. Throws IoError where there can be no process.
  explicit Child(std::vector<std::string> arguments);
  ~Child();  // ended, if it still runs
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class State { line, ended, late };
  struct Report {
    State state = State::ended;
    std::string line;
  };
  // The next line, or that it has ended, or that it said nothing for so long: then it is killed.
  Report next(std::chrono::milliseconds patience);

  // After it has ended: "it exited with 3", "it crashed: Segmentation fault"; empty for success.
  std::string how_it_ended();
  // The last line it printed to its standard output or error.
  std::string last_words() const;

 private:
  void kill_it();

  pid_t process_ = -1;
  int reports_ = -1, prints_ = -1;
  std::string unread_, printed_;
  std::optional<int> status_;
};

}  // namespace volta::cli
