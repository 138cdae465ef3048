// Waiting at the end of the main thread: its thread-local objects go before static ones do,
// whenever those were made.
#include "core/exit_guard.h"

#include <atomic>
#include <cstdlib>

#include "core/fork_guard.h"
#include "core/registry.h"
#include "platform/threads.h"

namespace volta {
namespace {

std::atomic<bool> is_ending{false};

void end() {
  if (is_ending.exchange(true)) return;
  for_each_used_device([](DeviceEntry& entry) {
    if (entry.device.is_cpu() || entry.plans == nullptr || is_forked(entry)) return;
    try {
      entry.backend.synchronize(entry.index);
    } catch (...) {  // a lost device has nothing to wait for
    }
  });
}

struct Guard {
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (platform::is_main_thread()) end();
  }
  void touch() const {}
};

}  // namespace

void wait_for_devices_at_exit() {
  thread_local const Guard guard;
  guard.touch();
  // Where other threads only have used devices, or one of them ends the process: before the static
  // objects that are older than this, those of the driver included.
  static const bool registered = std::atexit(end) == 0;
  (void)registered;
}

bool process_is_ending() { return is_ending.load(std::memory_order_relaxed); }

}  // namespace volta
