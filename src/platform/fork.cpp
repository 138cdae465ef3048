#include "platform/fork.h"

#include <pthread.h>

#include <atomic>

namespace volta::platform {
namespace {
std::atomic<int> count{0};
}

int forks() {
  static const bool registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); }) == 0;
  return registered ? count.load(std::memory_order_relaxed) : 0;
}

}  // namespace volta::platform
