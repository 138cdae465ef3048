// Processes that were forked: threads are not inherited, so what relies on some must know, and what
// they had locked must not stay so.
#pragma once

#include <mutex>
#include <new>
#include <type_traits>

#include "volta/export.h"

namespace volta::platform {

// How many forks lie between this process and the one that asked first. To be asked before the
// first thread that matters is started.
VOLTA_BACKEND_API int forks();

// A lock that a forking process takes first, together with all others, so that nobody is in the
// middle of what it guards; in the child it is made anew.
struct ForkLock {
  void* lock;
  bool (*try_lock)(void* lock);
  void (*unlock)(void* lock);
  void (*renew)(void* lock);           // in the child
  void (*wait)(void* lock) = nullptr;  // locks it, where that may take long; then it is for ever
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

// Called in the child of every fork, when no lock is held any more.
VOLTA_BACKEND_API void in_forked_processes(void (*act)());

}  // namespace volta::platform
