// A lock that one thread takes nearly always and others now and then. The owner pays two plain
// stores and a load; another thread makes the owner's stores visible with a barrier on all of the
// process's cores (Linux's membarrier) before it looks. Without that system call both sides use
// full fences. Under ThreadSanitizer, which sees neither, it is a plain mutex: that build checks
// what the lock guards, not the lock, which biased_lock_test.cpp does in the others.
#pragma once

#include <atomic>
#include <mutex>

#include "platform/thread_local.h"
#include "volta/export.h"

namespace volta::platform {

class VOLTA_BACKEND_API BiasedLock {
 public:
  BiasedLock();

  // The calling thread becomes the owner; at most one thread at a time may be.
  void own();
  // Nobody is. Called by the owner, which must not be inside.
  void disown() { owner_.store(nullptr, std::memory_order_relaxed); }

  // Some other thread owns it.
  bool owned_by_other() const {
    const void* owner = owner_.load(std::memory_order_relaxed);
    return owner != nullptr && owner != this_thread();
  }

  // Before and after a fork, which other threads do not live to see. In the child the lock is free;
  // its owner is as before.
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
  // An address that only this thread has.
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

  const bool one_sided_;  // the other side's barrier serves both
  std::atomic<const void*> owner_{nullptr};
  std::atomic<bool> inside_{false}, claimed_{false};
  std::mutex others_;
};

}  // namespace volta::platform
