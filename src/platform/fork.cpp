// Takes all locks of the library before a fork. The child has one thread, so a lock held by another
// thread would stay locked forever, and the data that it guards half changed.
#include "platform/fork.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace volta::platform {
namespace {

std::atomic<int> count{0};

struct Registry {
  std::mutex turn;   // one thread forks at a time
  std::mutex mutex;  // guards the members below
  std::vector<ForkLock> locks;
  std::vector<void (*)()> acts;
};
// Never destroyed: static mutexes are removed from it late.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// Locks all locks except `held`, which the caller holds. If one of them is busy, unlocks the others
// again and returns it in `busy`.
bool try_all(const std::vector<ForkLock>& locks, const void* held, ForkLock& busy) {
  for (std::size_t i = 0; i < locks.size(); ++i) {
    if (locks[i].lock == held || locks[i].try_lock(locks[i].lock)) continue;
    busy = locks[i];
    while (i-- > 0) {
      if (locks[i].lock != held) locks[i].unlock(locks[i].lock);
    }
    return false;
  }
  return true;
}

// Threads take these locks in any order, so waiting for one while holding another could deadlock. A
// device's lock may be held for a whole computation: it is waited for first, and the others are
// tried.
void before() {
  Registry& all = registry();
  all.turn.lock();
  ForkLock waited{};
  for (;;) {
    if (waited.lock != nullptr) waited.wait(waited.lock);
    all.mutex.lock();
    ForkLock busy{};
    if (try_all(all.locks, waited.lock, busy)) return;
    all.mutex.unlock();
    if (waited.lock != nullptr) waited.unlock(waited.lock);
    if (busy.wait != nullptr) {
      waited = busy;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

void in_parent() {
  Registry& all = registry();
  for (auto lock = all.locks.rbegin(); lock != all.locks.rend(); ++lock) lock->unlock(lock->lock);
  all.mutex.unlock();
  all.turn.unlock();
}

void in_child() {
  count.fetch_add(1, std::memory_order_relaxed);
  Registry& all = registry();
  for (const ForkLock& lock : all.locks) lock.renew(lock.lock);
  new (&all.mutex) std::mutex;
  new (&all.turn) std::mutex;
  for (void (*act)() : all.acts) act();
}

bool watch_forks() {
  static const bool watching = pthread_atfork(before, in_parent, in_child) == 0;
  return watching;
}

}  // namespace

int forks() { return watch_forks() ? count.load(std::memory_order_relaxed) : 0; }

void add_fork_lock(const ForkLock& lock) {
  watch_forks();
  const std::lock_guard guard(registry().mutex);
  registry().locks.push_back(lock);
}

void remove_fork_lock(const void* lock) noexcept {
  const std::lock_guard guard(registry().mutex);
  std::erase_if(registry().locks, [&](const ForkLock& known) { return known.lock == lock; });
}

void in_forked_processes(void (*act)()) {
  const std::lock_guard guard(registry().mutex);
  registry().acts.push_back(act);
}

}  // namespace volta::platform
