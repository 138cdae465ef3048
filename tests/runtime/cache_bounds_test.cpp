// What the runtime keeps between steps is bounded in bytes: plans, groupings, kernels, what
// libraries prepared, and the small outputs of plans.
//   VOLTA_RANDOM_SHAPES=steps   the number of steps of random shapes
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "runtime/cache_bounds.h"
#include "runtime/runner.h"
#include "support/closed_sizes.h"
#include "support/resident_memory.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here() { return {.device = test_device()}; }

// The device's caches are empty at first and have their old limit at the end.
class CacheBounds : public testing::Test {
 protected:
  void SetUp() override {
    before_ = memory_stats(test_device()).cache_limit;
    empty_cache(test_device());
  }
  void TearDown() override { set_cache_limit(test_device(), before_); }

  static MemoryStats stats() {
    synchronize(test_device());
    return memory_stats(test_device());
  }

 private:
  std::uint64_t before_ = 0;
};

// A small network that is trained with batches of any size.
class Training {
 public:
  Training() {
    model_.to(test_device());
    optimizer_ = std::make_unique<optim::Adam>(model_.parameters(), optim::AdamOptions{.lr = 1e-3});
  }
  double step(std::int64_t batch) {
    std::vector<float> values(static_cast<std::size_t>(batch) * 6);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i * 37 % 19) / 19.0f;
    optimizer_->zero_grad();
    const Tensor x = from_vector(values, here()).reshape({batch, 6});
    const Tensor loss = (model_(x) - 1).square().mean();
    loss.backward();
    optimizer_->step();
    return steps_++ % 8 == 0 ? loss.item() : 0;
  }

 private:
  nn::Sequential model_{nn::Linear(6, 8), nn::Tanh(), nn::LayerNorm(8), nn::Linear(8, 3)};
  std::unique_ptr<optim::Adam> optimizer_;
  int steps_ = 0;
};

// On CUDA a plan for several sizes may replace those for one size; less memory is not growth.
void expect_close(std::uint64_t now, std::uint64_t before, double slack, const char* what) {
  EXPECT_LE(static_cast<double>(now), 1.05 * static_cast<double>(before) + slack) << what;
  if (test_device().type() == DeviceType::cuda) return;
  EXPECT_GE(static_cast<double>(now), 0.95 * static_cast<double>(before) - slack) << what;
}

// Most batches have one of a few sizes; some have a rare size, and therefore a plan that is soon
// evicted.
TEST_F(CacheBounds, RandomShapesEndWithTheMemoryOfTheFirstSteps) {
  const bool quick = !test_device().is_cpu();  // a kernel takes PoCL a third of a second
  const char* const asked = std::getenv("VOLTA_RANDOM_SHAPES");
  const int steps = asked != nullptr ? std::atoi(asked) : quick ? 600 : 10'000;
  const int warm = quick ? 120 : 2000;
  ASSERT_GT(steps, warm);
  const std::int64_t common = quick ? 6 : 40, rare = quick ? 10 : 500;
  Training training;
  // The largest size comes first, so that arena and scratch memory have their final size.
  training.step(32 + common + rare);
  for (std::int64_t size = 1; size <= common; ++size) training.step(32 + size);
  const MemoryStats few = stats();
  EXPECT_GT(few.plan_bytes, 0u);
  EXPECT_GT(few.kernel_bytes, 0u);
  set_cache_limit(test_device(), few.cache_bytes() + few.plan_bytes / 4);
  std::mt19937 random(1);
  const auto run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const bool is_rare = random() % (quick ? 10 : 50) == 0;
      const auto choice = static_cast<std::int64_t>(random() % 100'000);
      training.step(33 + (is_rare ? common + choice % rare : choice % common));
    }
  };
  run(warm);
  const MemoryStats before = stats();
  const std::uint64_t heap = heap_bytes_in_use();
  run(steps - warm);
  const MemoryStats after = stats();
  EXPECT_LE(after.cache_bytes(), after.cache_limit);
  EXPECT_LE(after.plan_device_bytes, after.cache_limit);
  expect_close(after.cache_bytes(), before.cache_bytes(), 0, "bytes of the caches");
  expect_close(after.cached_plans, before.cached_plans, 2, "plans");
  // A plan that runs again and again keeps one or two buffers for an output of a few bytes.
  expect_close(after.in_use, before.in_use, 64 * 1024, "bytes in use");
  EXPECT_EQ(after.reserved, before.reserved);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have heaps of their own
  EXPECT_LT(heap_bytes_in_use(), heap + (std::uint64_t{8} << 20));   // drivers' compilers keep some
#else
  (void)heap;
#endif
}

TEST_F(CacheBounds, EmptyCacheDropsEverythingThatCanBeMadeAgain) {
  Training training;
  training.step(40);
  training.step(40);
  const MemoryStats full = stats();
  EXPECT_GT(full.cached_plans, 0u);
  EXPECT_GT(full.plan_bytes, 0u);
  EXPECT_GT(full.grouping_bytes, 0u);
  EXPECT_GT(full.kernel_bytes, 0u);
  empty_cache(test_device());
  const MemoryStats empty = stats();
  EXPECT_EQ(empty.cached_plans, 0u);
  EXPECT_EQ(empty.plan_bytes, 0u);
  EXPECT_EQ(empty.plan_device_bytes, 0u);
  EXPECT_EQ(empty.grouping_bytes, 0u);
  EXPECT_EQ(empty.library_bytes, 0u);
  EXPECT_LT(empty.kernel_bytes, full.kernel_bytes);
  training.step(40);
  EXPECT_GT(stats().cached_plans, 0u);
}

TEST_F(CacheBounds, TheLimitEvictsThePlansUsedLongestAgo) {
  const ClosedSizes closed;
  const auto run = [&](std::int64_t size) {
    EXPECT_EQ((ones({size}, here()) * 2 + 1).sum().item(), 3.0 * static_cast<double>(size));
  };
  for (std::int64_t size = 40; size < 48; ++size) run(size);
  const MemoryStats eight = stats();
  EXPECT_GE(eight.cached_plans, 8u);
  set_cache_limit(test_device(), eight.cache_bytes() - 1);
  EXPECT_LT(stats().cached_plans, eight.cached_plans);
  // The latest plan still replays; the first one is built again.
  Counters before = counters();
  run(47);
  EXPECT_EQ(counters().plans_built, before.plans_built);
  before = counters();
  run(40);
  EXPECT_GT(counters().plans_built, before.plans_built);
  // The most recently used plan always stays.
  set_cache_limit(test_device(), 1);
  EXPECT_EQ(stats().cached_plans, 1u);
  run(41);
  EXPECT_EQ(stats().cached_plans, 1u);
}

// A plan keeps two buffers for each small output. Those of all plans together are bounded.
TEST_F(CacheBounds, SmallOutputsOfAllPlansAreBounded) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "every set of outputs is a kernel to be compiled";
  constexpr int kOutputs = 40, kPlans = 100;
  const Tensor x = rand({256}, here()).eval();
  const std::uint64_t before = stats().in_use;
  std::uint64_t most = 0;
  for (int plan = 0; plan < kPlans; ++plan) {
    for (int repeated = 0; repeated < 2; ++repeated) {
      std::vector<Tensor> results;
      for (int i = 0; i < kOutputs; ++i) results.push_back(x * (2.5 + i + plan * kOutputs));
      results.resize(static_cast<std::size_t>(kOutputs - plan % 37));  // fewer are needed
      submit(test_device());
    }
    most = std::max(most, stats().in_use);
  }
  EXPECT_LE(most, before + plan::kMaxKeptOutputs + (std::uint64_t{1} << 18));
}

}  // namespace
}  // namespace volta
