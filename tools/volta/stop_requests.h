// Ctrl-C during long work: the first one is a request, the second one ends the process as usual.
// Other signals can be handled in the same way.
#pragma once

#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

namespace volta::cli {

// Active while the object lives. A signal that the process was started to ignore stays ignored.
class StopRequests {
 public:
  explicit StopRequests(std::initializer_list<int> signals = {SIGINT});
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;
  ~StopRequests();
  static bool stopped();
  static int exit_code();  // 130 after Ctrl-C, 143 after SIGTERM, as in shells

 private:
  std::vector<std::pair<int, struct sigaction>> before_;
};

inline constexpr int kStopped = 130;  // the exit code after Ctrl-C

}  // namespace volta::cli
