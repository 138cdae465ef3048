// Failed evaluations: what they leave pending, what can be tried again, and what later evaluations
// do.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/scarcity.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr std::int64_t kMany = 16'000'000;

TensorOptions here() { return {.device = test_device()}; }

Tensor threes() { return from_vector(std::vector<float>(4, 3.0f), here()); }
// More than fits under Scarcity.
Tensor big_of(const Tensor& x) { return ones({kMany}, here()) * x.sum(); }

TEST(FailedSweep, UnrelatedTensorsStayPendingAndAreComputedWhenLookedAt) {
  const Tensor x = threes();
  Tensor big, small, later, from_small;
  {
    const Scarcity scarcity;
    big = big_of(x);
    small = x + 1;
    from_small = small * 2;
    later = x * 2;
    EXPECT_THROW(big.eval(), OutOfMemory);
    EXPECT_TRUE(small.is_pending());
    EXPECT_EQ(small.to_vector<float>(), std::vector<float>(4, 4.0f));
    EXPECT_EQ(from_small.to_vector<float>(), std::vector<float>(4, 8.0f));
    EXPECT_EQ((small + 1).to_vector<float>(), std::vector<float>(4, 5.0f));
    EXPECT_THROW(big.eval(), OutOfMemory);
  }
  EXPECT_EQ(later.to_vector<float>(), std::vector<float>(4, 6.0f));
}

TEST(FailedSweep, WhatFailedForWantOfMemoryIsTriedAgain) {
  const Tensor x = threes();
  Tensor big;
  {
    const Scarcity scarcity;
    big = big_of(x);
    EXPECT_THROW(big.eval(), OutOfMemory);
    EXPECT_THROW((big + 1).eval(), OutOfMemory);
  }
  EXPECT_EQ(big.narrow(0, kMany - 2, 2).to_vector<float>(), std::vector<float>(2, 12.0f));
}

TEST(FailedSweep, LaterSweepsDoNotFailWithIt) {
  const Tensor x = threes();
  const Scarcity scarcity;
  const Tensor big = big_of(x);
  EXPECT_THROW(submit(test_device()), OutOfMemory);
  Tensor parameter = threes();
  parameter.set_requires_grad();
  optim::SGD optimizer({parameter}, {.lr = 0.5});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (parameter * parameter).sum().backward();
    optimizer.step();  // 1 - 2 * 0.5 = 0 times the former value
  }
  EXPECT_EQ(parameter.to_vector<float>(), std::vector<float>(4, 0.0f));
  EXPECT_THROW(big.eval(), OutOfMemory);
}

TEST(FailedSweep, RandomNumbersAreTheOnesDrawnWhenRecorded) {
  manual_seed(7);
  const std::vector<float> expected = rand({4}, here()).to_vector<float>();
  const Tensor x = threes();
  const Scarcity scarcity;
  manual_seed(7);
  const Tensor drawn = rand({4}, here()), twice = drawn * 2;
  const Tensor big = big_of(x);
  EXPECT_THROW(big.eval(), OutOfMemory);
  EXPECT_EQ(drawn.to_vector<float>(), expected);
  std::vector<float> doubled = expected;
  for (float& value : doubled) value *= 2;
  EXPECT_EQ(twice.to_vector<float>(), doubled);
}

TEST(FailedSweep, AnotherThreadLooksAtWhatIsLeft) {
  const Tensor x = threes();
  const Scarcity scarcity;
  const Tensor big = big_of(x), small = x + 1;
  EXPECT_THROW(big.eval(), OutOfMemory);
  std::thread other([&] {
    EXPECT_EQ((small * 2).to_vector<float>(), std::vector<float>(4, 8.0f));
    EXPECT_THROW(big.eval(), OutOfMemory);
  });
  other.join();
  EXPECT_EQ(small.to_vector<float>(), std::vector<float>(4, 4.0f));
}

TEST(FailedSweep, WhatNobodyWantsAnyMoreIsFreed) {
  const auto in_use = [] {
    synchronize(test_device());
    return memory_stats(test_device()).in_use;
  };
  const Tensor x = threes();
  const std::uint64_t before = in_use();
  const Scarcity scarcity;
  for (int i = 0; i < 3; ++i) {
    const Tensor input = ones({1 << 20}, here()) * x.sum() + 1;
    input.eval();
    const Tensor big = big_of(input), other = input * 2;
    EXPECT_THROW(big.eval(), OutOfMemory);
  }
  EXPECT_LT(in_use(), before + (std::uint64_t{6} << 20));
}

// Operations whose results are gone keep their inputs alive until the batch ends. If memory is
// short, the inputs are freed at once, whether or not the batch has other wanted values.
TEST(FailedSweep, WhatOnlyUnwantedOperationsReadIsFreedBeforeMemoryRunsOut) {
  const std::vector<float> values(4 << 20, 1.0f);  // 16 MiB of the 32
  for (const bool something_is_wanted : {false, true}) {
    const Tensor x = threes();
    const Scarcity scarcity;
    const Tensor wanted = something_is_wanted ? x * 2 : Tensor();
    for (int i = 0; i < 5; ++i) {
      const Tensor a = from_vector(values, here());
      const Tensor b = a + x.sum();
    }
    if (something_is_wanted) {
      EXPECT_TRUE(wanted.is_pending());
      EXPECT_EQ(wanted.to_vector<float>(), std::vector<float>(4, 6.0f));
    }
  }
}

// Memory of unwanted operations is also reused within the batch that is being run.
TEST(FailedSweep, AResultFitsWhereUnwantedOperationsHadTheirInputs) {
  const std::vector<float> values(4 << 20, 1.0f);
  const Tensor x = threes();
  const Scarcity scarcity;
  {
    const Tensor a = from_vector(values, here());
    const Tensor b = a + x.sum();
  }
  const Tensor large = ones({6 << 20}, here()) * x.sum();  // 24 MiB
  large.eval();
  EXPECT_EQ(large.narrow(0, 5, 1).item<float>(), 12.0f);
}

}  // namespace
}  // namespace volta
