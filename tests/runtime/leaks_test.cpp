// The memory of a training loop does not grow in ten thousand steps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "runtime/runner.h"
#include "support/resident_memory.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here() { return {.device = test_device()}; }

// Dropout, statistics, an optimizer with state; from time to time another batch size, a label out
// of range, an error, a dropped history, a temporary model.
class Loop {
 public:
  Loop()
      : model_({{"a", nn::Linear(6, 16)},
                {"n", nn::BatchNorm1d(16)},
                {"r", nn::ReLU()},
                {"d", nn::Dropout(0.2)},
                {"b", nn::Linear(16, 3)}}) {
    model_.to(test_device());
    optimizer_.emplace(model_.parameters(), optim::AdamOptions{.lr = 1e-3});
  }

  void step(int number) {
    const std::int64_t batch = number % 10 == 3 ? 4 + number / 10 % 5 : 8;
    std::vector<float> values(static_cast<std::size_t>(batch) * 6);
    std::vector<std::int64_t> labels(static_cast<std::size_t>(batch));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(number)) % 19) / 19.0f;
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<std::int64_t>((i + static_cast<std::size_t>(number)) % 3);
    const bool wrong_label = number % 100 == 50;
    if (wrong_label) labels[0] = 7;
    optimizer_->zero_grad();
    const Tensor x = from_vector(values, here()).reshape({batch, 6});
    const Tensor loss = cross_entropy(model_(x), from_vector(labels, here()));
    if (number % 50 == 20) {
      EXPECT_THROW(model_(x.narrow(1, 0, 5)), ShapeError);
      return;  // the history of the loss is not used
    }
    loss.backward();
    nn::clip_grad_norm(model_.parameters(), 1.0);
    optimizer_->step();
    if (wrong_label) {
      EXPECT_THROW(loss.item(), IndexError);
    } else if (number % 4 == 0) {
      loss.item();
    }
    if (number % 500 == 400) {
      nn::Linear gone(6, 6, {.device = test_device()});
      gone(x).sum().backward();
      EXPECT_TRUE(std::isfinite(gone.weight->grad().sum().item()));
    }
  }

 private:
  nn::Sequential model_;
  std::optional<optim::Adam> optimizer_;
};

struct Held {
  std::uint64_t in_use, reserved, heap;
  std::size_t plans, groupings, programs;
};
Held held() {
  synchronize(test_device());
  const MemoryStats memory = memory_stats(test_device());
  const plan::CacheStats plans = plan::cache_stats(test_device());
  return {memory.in_use, memory.reserved, heap_bytes_in_use(),
          plans.plans,   plans.groupings, plans.programs};
}

TEST(Leaks, TenThousandStepsHoldWhatAThousandDo) {
  // Twice a full round of all rare events.
  constexpr int kWarm = 1000, kSteps = 10'000;
  Loop loop;
  for (int step = 0; step < kWarm; ++step) loop.step(step);
  const Held before = held();
  for (int step = kWarm; step < kSteps; ++step) loop.step(step);
  const Held after = held();
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.plans, before.plans);
  EXPECT_EQ(after.groupings, before.groupings);
  EXPECT_EQ(after.programs, before.programs);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they have heaps of their own
  // One leaked node per step would be 2 MiB. CUDA's driver takes memory for itself in steps of 4
  // MiB.
  const std::uint64_t kBound =
      test_device().type() == DeviceType::cuda ? std::uint64_t{8} << 20 : std::uint64_t{256} << 10;
  EXPECT_LT(after.heap, before.heap + kBound);
#endif
  std::printf("heap: %+lld KiB in %d steps\n",
              (static_cast<long long>(after.heap) - static_cast<long long>(before.heap)) / 1024,
              kSteps - kWarm);
}

}  // namespace
}  // namespace volta
