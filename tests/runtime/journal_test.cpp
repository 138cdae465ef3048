// Assignments and failing submits: which values are restored, on which thread, and what is dropped.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/scarcity.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }

// Returns a tensor in memory, unlike values that are made of constants only.
Tensor fives(std::int64_t n) {
  const std::vector<float> values(static_cast<std::size_t>(n), 5.0f);
  return from_vector(values, here());
}

Tensor too_large(const Tensor& factor) { return ones({64'000'000}, here()) * factor; }

TEST(Journal, AnotherThreadsWorkDoesNotOverwriteWhatAFailedStepRestores) {
  const Tensor small = (ones({4}, here()) * 3).eval();
  Tensor p = fives(1000);
  // Only the other thread's pending read and this thread's journal need the value, whose buffer
  // would suit the product.
  Tensor doubled;
  const Scarcity scarcity;
  std::atomic<int> turn{0};
  std::thread reader([&] {
    doubled = p.detach() * 2;
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    doubled.eval();
  });
  while (turn != 1) std::this_thread::yield();
  p.copy_(small.sum().expand({1000}));
  turn = 2;
  reader.join();
  const Tensor huge = too_large(small.sum());
  EXPECT_THROW(huge.eval(), OutOfMemory);
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(1000, 5.0f));
  EXPECT_EQ(doubled.to_vector<float>(), std::vector<float>(1000, 10.0f));
}

TEST(Journal, AnotherThreadsSubmitLeavesTheUndoingToTheOwner) {
  const Tensor small = (ones({4}, here()) * 3).eval();
  Tensor p = fives(8);
  const Scarcity scarcity;
  p += 1;
  p += 1;  // the second assignment in a batch is undone with the first
  const Tensor huge = too_large(small.sum());
  std::thread other([&] { EXPECT_THROW(huge.eval(), OutOfMemory); });
  other.join();
  EXPECT_THROW((p * 2).eval(), OutOfMemory);  // the owner gets the error once
  EXPECT_EQ((p * 2).to_vector<float>(), std::vector<float>(8, 10.0f));
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(8, 5.0f));
}

TEST(Journal, AssigningAnewAfterAnotherThreadsFailureStays) {
  const Tensor small = (ones({4}, here()) * 3).eval();
  Tensor p = fives(8);
  const Scarcity scarcity;
  p += 1;
  const Tensor huge = too_large(small.sum());
  std::thread other([&] { EXPECT_THROW(huge.eval(), OutOfMemory); });
  other.join();
  p.copy_(small.sum().expand({8}) + 1);
  EXPECT_EQ(p.to_vector<float>(), std::vector<float>(8, 13.0f));
}

TEST(Journal, TheLatestOfSeveralAssignmentsTakesTheBuffer) {
  Tensor p = fives(1 << 16);
  for (int step = 0; step < 3; ++step) {
    p += 1;
    p *= 2;
    p.eval();
    synchronize(test_device());
    const std::uint64_t allocations = counters().allocations;
    const std::uint64_t in_use = memory_stats(test_device()).in_use;
    p += 1;
    p *= 2;
    p.eval();
    EXPECT_EQ(counters().allocations, allocations);
    // Memory of others may be released meanwhile.
    EXPECT_LE(memory_stats(test_device()).in_use, in_use);
  }
}

TEST(Journal, AnUpdateOfWhatNobodyHasIsNotComputed) {
  const Tensor kept = fives(8);
  synchronize(test_device());
  const Counters before = counters();
  {
    Tensor gone = kept.detach();
    gone += 1;
  }
  submit(test_device());
  EXPECT_EQ(counters().launches, before.launches);
  EXPECT_EQ(counters().submits, before.submits);
  EXPECT_EQ(kept.to_vector<float>(), std::vector<float>(8, 5.0f));
}

TEST(Journal, AThreadThatEndsWithADroppedUpdateLeavesItsMemory) {
  const auto in_use = [] {
    synchronize(test_device());
    return memory_stats(test_device()).in_use;
  };
  const std::uint64_t before = in_use();
  for (int i = 0; i < 4; ++i) {
    std::thread worker([] {
      Tensor gone = fives(1 << 20);
      gone += 1;
    });
    worker.join();
  }
  EXPECT_LT(in_use(), before + (std::uint64_t{4} << 20));
}

// Destroyed after the main thread's thread-local objects.
struct LateWork {
  Tensor weight;
  ~LateWork() {
    Tensor loss = (weight * weight).sum();
    loss.backward();
    {
      const NoGrad no_grad;
      weight -= weight.grad() * 0.25;
    }
    if (weight.to_vector<float>() != std::vector<float>(4, 1.0f)) std::_Exit(3);
    std::_Exit(42);
  }
};

TEST(JournalDeathTest, StaticDestructorsRecordAndEvaluate) {
  if (test_device().type() == DeviceType::cuda) GTEST_SKIP() << "its driver is gone by then";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static LateWork late;
        late.weight = tensor({2, 2, 2, 2}, {4}, here(true));
        (late.weight * 2).sum().item();
        std::exit(0);
      },
      testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace volta
