// The lock of a recorder: its owner and other threads exclude each other, and ownership can move.
#include "platform/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace volta::platform {
namespace {

// Deliberately not atomic: updates are lost unless the lock works.
struct Guarded {
  BiasedLock lock;
  std::int64_t a = 0, b = 0;
  bool broken = false;
  void step() {
    const std::lock_guard guard(lock);
    broken = broken || a != b;
    ++a;
    ++b;
  }
};

TEST(BiasedLock, TheOwnerAndOthersExcludeEachOther) {
  Guarded guarded;
  std::atomic<bool> started{false}, stop{false};
  std::int64_t own = 0;
  std::thread owner([&] {
    guarded.lock.own();
    started = true;
    for (; own == 0 || !stop.load(std::memory_order_relaxed); ++own) guarded.step();
    guarded.lock.disown();
  });
  while (!started) std::this_thread::yield();  // both sides run at the same time
  constexpr int kOthers = 2, kSteps = 3000;
  std::vector<std::thread> others;
  for (int t = 0; t < kOthers; ++t) {
    others.emplace_back([&] {
      for (int i = 0; i < kSteps; ++i) guarded.step();
    });
  }
  for (std::thread& other : others) other.join();
  stop = true;
  owner.join();
  EXPECT_FALSE(guarded.broken);
  EXPECT_EQ(guarded.a, own + kOthers * kSteps);
  EXPECT_GT(own, 0);
}

TEST(BiasedLock, OwnershipMoves) {
  Guarded guarded;
  for (int turn = 0; turn < 8; ++turn) {
    std::thread other([&] {
      guarded.lock.own();
      for (int i = 0; i < 1000; ++i) guarded.step();
      guarded.lock.disown();
    });
    for (int i = 0; i < 100; ++i) guarded.step();
    other.join();
  }
  EXPECT_FALSE(guarded.broken);
  EXPECT_EQ(guarded.a, 8 * 1100);
}

}  // namespace
}  // namespace volta::platform
