// A lock that one thread, its owner, takes nearly always and other threads rarely. The owner pays
// two plain stores and a load. Another thread issues a barrier on all cores of the process (Linux's
// membarrier) before it looks at the owner's stores; without that system call both sides use full
// fences. ThreadSanitizer understands neither, so under it this is a plain mutex.
#pragma once

#include <atomic>
#include <mutex>

#include "platform/thread_local.h"
#include "volta/export.h"

namespace volta::platform {

class VOLTA_BACKEND_API BiasedLock {
 public:
  BiasedLock();

  // Makes the calling thread the owner. There is at most one owner at a time.
  void own();
  // Leaves the lock without an owner. The owner calls it while it does not hold the lock.
  void disown() { owner_.store(nullptr, std::memory_order_relaxed); }

  // Returns whether another thread is the owner.
  bool owned_by_other() const {
    const void* owner = owner_.load(std::memory_order_relaxed);
    return owner != nullptr && owner != this_thread();
  }

  // Called before a fork and in the child, where no other thread exists. In the child the lock is
  // free and keeps its owner.
  bool try_lock() noexcept;
  void renew() noexcept;

  void lock() noexcept {
    if (!is_owner()) return claim();
    enter();
    if (claimed_.load(std::memory_order_acquire)) wait_for_claim();
  }
  void unlock() noexcept {
    if (!is_owner()) return unclaim();
    inside_.store(false, std::memory_order_release);
  }

 private:
  // Returns an address that is unique to this thread.
  static const void* this_thread() {
    VOLTA_INITIAL_EXEC static constinit thread_local char tag = 0;
    return &tag;
  }
  bool is_owner() const {
#if defined(__SANITIZE_THREAD__)
    return false;  // every thread takes the mutex
#else
    return owner_.load(std::memory_order_relaxed) == this_thread();
#endif
  }
  void enter() noexcept {
    inside_.store(true, std::memory_order_relaxed);
    if (one_sided_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  void wait_for_claim() noexcept;
  void claim() noexcept;
  void unclaim() noexcept;

  const bool one_sided_;  // the barrier of the other thread serves both sides
  std::atomic<const void*> owner_{nullptr};
  std::atomic<bool> inside_{false}, claimed_{false};
  std::mutex others_;
};

}  // namespace volta::platform
