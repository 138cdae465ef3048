// Forked processes. A child inherits no threads, so code that relies on threads must detect the
// fork, and locks held by other threads must not stay locked.
#pragma once

#include <mutex>
#include <new>
#include <type_traits>

#include "volta/export.h"

namespace volta::platform {

// Returns the number of forks between this process and the one that called this first. The first
// call must come before the threads that matter are started.
VOLTA_BACKEND_API int forks();

// A lock that is taken before every fork together with all others, so that no thread is in the
// middle of changing the guarded data. It is initialised again in the child.
struct ForkLock {
  void* lock;
  bool (*try_lock)(void* lock);
  void (*unlock)(void* lock);
  void (*renew)(void* lock);  // called in the child
  // Waits for a lock that may be held long; the lock is then never removed.
  void (*wait)(void* lock) = nullptr;
};
VOLTA_BACKEND_API void add_fork_lock(const ForkLock& lock);
VOLTA_BACKEND_API void remove_fork_lock(const void* lock) noexcept;

template <class Mutex>
ForkLock fork_lock_of(Mutex& mutex) {
  return {&mutex, [](void* lock) { return static_cast<Mutex*>(lock)->try_lock(); },
          [](void* lock) { static_cast<Mutex*>(lock)->unlock(); },
          [](void* lock) {
            if constexpr (std::is_default_constructible_v<Mutex>) new (lock) Mutex;
          }};
}

// A mutex that other threads may hold when the process forks.
template <class Mutex>
class ForkSafe : public Mutex {
 public:
  ForkSafe() { add_fork_lock(fork_lock_of<Mutex>(*this)); }
  ~ForkSafe() { remove_fork_lock(static_cast<Mutex*>(this)); }
  ForkSafe(const ForkSafe&) = delete;
  ForkSafe& operator=(const ForkSafe&) = delete;
};
using ForkMutex = ForkSafe<std::mutex>;
using ForkRecursiveMutex = ForkSafe<std::recursive_mutex>;

// Registers a function that is called in the child of every fork, after all locks were released.
VOLTA_BACKEND_API void in_forked_processes(void (*act)());

}  // namespace volta::platform
