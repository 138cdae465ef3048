// Ctrl-C while something long is under way: the first one asks, the second ends the process as
// ever.
#pragma once

#include <csignal>

namespace volta::cli {

// As long as the object lives.
class StopRequests {
 public:
  StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;
  ~StopRequests();
  static bool stopped();

 private:
  struct sigaction before_ = {};
};

inline constexpr int kStopped = 130;  // the exit code after Ctrl-C

}  // namespace volta::cli
