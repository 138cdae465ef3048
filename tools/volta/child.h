// A child process that reports line by line. If it crashes or hangs, its parent is not affected.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace volta::cli {

class Child {
 public:
  // Runs this program with the arguments, followed by the number of the descriptor for reports. The
  // child's own output is kept. Throws IoError if no process can be started.
  explicit Child(std::vector<std::string> arguments);
  ~Child();  // kills the process if it is still running
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  enum class State { line, ended, late };
  struct Report {
    State state = State::ended;
    std::string line;
  };
  // Returns the next line or the end of the process. A process silent for longer than `patience` is
  // killed.
  Report next(std::chrono::milliseconds patience);

  // Called after the end: "it exited with 3", "it crashed: Segmentation fault"; empty for success.
  std::string how_it_ended();
  // The last line of the process's standard output or error.
  std::string last_words() const;

 private:
  void kill_it();

  pid_t process_ = -1;
  int reports_ = -1, prints_ = -1;
  std::string unread_, printed_;
  std::optional<int> status_;
};

}  // namespace volta::cli
