#include "stop_requests.h"

namespace volta::cli {
namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

}  // namespace

StopRequests::StopRequests() {
  asked_to_stop = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { asked_to_stop = 1; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, &before_);
}
StopRequests::~StopRequests() { sigaction(SIGINT, &before_, nullptr); }
bool StopRequests::stopped() { return asked_to_stop != 0; }

}  // namespace volta::cli
