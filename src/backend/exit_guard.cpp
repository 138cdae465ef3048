// Waits at the end of the main thread: its thread-local objects are destroyed before all static
// objects, in whatever order those were made.
#include "backend/exit_guard.h"

#include <atomic>
#include <cstdlib>

#include "backend/fork_guard.h"
#include "backend/registry.h"
#include "platform/threads.h"

namespace volta {
namespace {

std::atomic<bool> is_ending{false};

void end() {
  if (is_ending.exchange(true)) return;
  for_each_used_device([](DeviceEntry& entry) {
    if (entry.device.is_cpu() || entry.runtime == nullptr || is_forked(entry)) return;
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
  // The main thread's guard does not run if only other threads have used devices, or if one of them
  // ends the process. An exit handler registered here runs before the destruction of older static
  // objects, including the driver's.
  static const bool registered = std::atexit(end) == 0;
  (void)registered;
}

bool process_is_ending() { return is_ending.load(std::memory_order_relaxed); }

}  // namespace volta
