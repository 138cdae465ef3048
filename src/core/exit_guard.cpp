// Waiting at the end of the main thread: its thread-local objects go before static ones do,
// whenever those were made.
#include "core/exit_guard.h"

#include "core/fork_guard.h"
#include "core/registry.h"
#include "platform/threads.h"

namespace volta {
namespace {

struct Guard {
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (!platform::is_main_thread()) return;
    for_each_used_device([](DeviceEntry& entry) {
      if (entry.device.is_cpu() || entry.plans == nullptr || is_forked(entry)) return;
      try {
        entry.backend.synchronize(entry.index);
      } catch (...) {  // a lost device has nothing to wait for
      }
    });
  }
  void touch() const {}
};

}  // namespace

void wait_for_devices_at_exit() {
  thread_local const Guard guard;
  guard.touch();
}

}  // namespace volta
