#include "stop_requests.h"

namespace volta::cli {
namespace {

volatile std::sig_atomic_t stopped_by = 0;  // the signal that requested it

}  // namespace

StopRequests::StopRequests(std::initializer_list<int> signals) {
  stopped_by = 0;
  struct sigaction action = {};
  action.sa_handler = [](int signal) { stopped_by = signal; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (const int signal : signals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    before_.emplace_back(signal, before);
    sigaction(signal, &action, nullptr);
  }
}
StopRequests::~StopRequests() {
  for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
}
bool StopRequests::stopped() { return stopped_by != 0; }
int StopRequests::exit_code() { return 128 + stopped_by; }

}  // namespace volta::cli
