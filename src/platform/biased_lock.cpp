#include "platform/biased_lock.h"

#include <new>
#include <thread>

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace volta::platform {
namespace {

#if defined(__linux__)
bool membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }
bool register_barrier() { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }
void barrier_everywhere() { membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
#else
bool register_barrier() { return false; }
void barrier_everywhere() {}
#endif

bool has_barrier() {
  static const bool registered = register_barrier();
  return registered;
}

}  // namespace

BiasedLock::BiasedLock() : one_sided_(has_barrier()) {}

void BiasedLock::own() {
  claim();
  owner_.store(this_thread(), std::memory_order_relaxed);
  unclaim();
}

void BiasedLock::wait_for_claim() noexcept {
  do {
    inside_.store(false, std::memory_order_release);
    while (claimed_.load(std::memory_order_acquire)) std::this_thread::yield();
    enter();
  } while (claimed_.load(std::memory_order_acquire));
}

void BiasedLock::claim() noexcept {
  others_.lock();
  claimed_.store(true, std::memory_order_relaxed);
  if (one_sided_) {
    barrier_everywhere();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  while (inside_.load(std::memory_order_acquire)) std::this_thread::yield();
}

bool BiasedLock::try_lock() noexcept {
  if (is_owner()) {
    enter();
    if (!claimed_.load(std::memory_order_acquire)) return true;
    inside_.store(false, std::memory_order_release);
    return false;
  }
  if (!others_.try_lock()) return false;
  claimed_.store(true, std::memory_order_relaxed);
  if (one_sided_) {
    barrier_everywhere();
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (!inside_.load(std::memory_order_acquire)) return true;
  unclaim();
  return false;
}

void BiasedLock::renew() noexcept {
  inside_.store(false, std::memory_order_relaxed);
  claimed_.store(false, std::memory_order_relaxed);
  new (&others_) std::mutex;
}

void BiasedLock::unclaim() noexcept {
  claimed_.store(false, std::memory_order_release);
  others_.unlock();
}

}  // namespace volta::platform
