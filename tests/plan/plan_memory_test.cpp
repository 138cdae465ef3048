// Memory: what a training step needs beyond what must be kept, and what many plans leave behind.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "plan/group/grouping.h"
#include "plan/group/structure.h"
#include "runtime/runner.h"
#include "support/closed_sizes.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here() { return {.device = test_device()}; }

// The largest memory in use while `action` runs, above that at the construction, with the arena
// counted as the memory that this step needs of it.
struct Usage {
  std::uint64_t floor = 0;
  Usage() { floor = in_use() - plan::cache_stats(test_device()).arena_bytes; }
  static std::uint64_t in_use() { return memory_stats(test_device()).in_use; }

  template <class Action>
  std::uint64_t peak_of(Action action) const {
    synchronize(test_device());
    reset_peak_memory(test_device());
    action();
    const plan::CacheStats cache = plan::cache_stats(test_device());
    return memory_stats(test_device()).peak - floor - cache.arena_bytes + cache.latest_arena;
  }
};

struct Mlp {
  std::vector<Tensor> weights, biases, parameters;
  Mlp(int layers, std::int64_t width) {
    for (int i = 0; i < layers; ++i) {
      weights.push_back((randn({width, width}, here()) * 0.05).set_requires_grad());
      biases.push_back(zeros({width}, here()).set_requires_grad());
    }
    for (int i = 0; i < layers; ++i) {
      parameters.push_back(weights[static_cast<std::size_t>(i)]);
      parameters.push_back(biases[static_cast<std::size_t>(i)]);
    }
  }
  Tensor operator()(Tensor x) const {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      x = linear(x, weights[i], biases[i]);
      if (i + 1 < weights.size()) x = x.relu();
    }
    return x;
  }
};

// The memory that must be kept while a step of an MLP with equal layers runs, in bytes:
// - parameters, Adam's two moments, the input and the target, which outlive the step;
// - gradients, because the parameters' grad() is read after the step;
// - for each layer its activation, which the forward pass saves for the backward pass as the next
//   product's operand and as ReLU's mask; the last layer's output serves the loss;
// - the largest temporary state: a gradient with respect to an activation (a product's result) and
//   one with respect to the sum before it.
std::uint64_t must_be_kept(int layers, std::int64_t width, std::int64_t batch) {
  const std::int64_t parameters = layers * (width * width + width);
  const std::int64_t activation = batch * width;
  const std::int64_t outlive = 3 * parameters + 2 * activation;
  return static_cast<std::uint64_t>(4 *
                                    (outlive + parameters + layers * activation + 2 * activation));
}

void expect_peak_near_minimum(int layers, std::int64_t width, std::int64_t batch) {
  const Usage usage;
  const Mlp model(layers, width);
  const Tensor x = randn({batch, width}, here()).eval(), y = randn({batch, width}, here()).eval();
  optim::Adam optimizer(model.parameters, {.lr = 1e-3});
  const auto step = [&] {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    synchronize(test_device());
  };
  for (int i = 0; i < 3; ++i) step();
  const std::uint64_t peak = usage.peak_of(step), kept = must_be_kept(layers, width, batch);
  std::printf("%d layers of %lld, batch %lld: peak %.2f MB, to be kept %.2f MB\n", layers,
              static_cast<long long>(width), static_cast<long long>(batch),
              static_cast<double>(peak) / 1e6, static_cast<double>(kept) / 1e6);
  EXPECT_LE(static_cast<double>(peak), 1.1 * static_cast<double>(kept));
}

// One net has few parameters and many activations, the other many parameters and few activations.
TEST(PlanMemory, ATwentyLayerStepPeaksWithinATenthOfWhatMustBeKept) {
  expect_peak_near_minimum(20, 60, 512);
  expect_peak_near_minimum(20, 192, 48);
}

// The parameter gradients of sixteen norms could be one launch if all layers kept their operands
// until the last gradient can be computed.
TEST(PlanMemory, LayersDoNotKeepTemporariesForACommonLaunch) {
  constexpr std::int64_t kWidth = 16, kBatch = 4096, kLayers = 16;
  const Usage usage;
  std::vector<Tensor> weights, gains;
  for (int i = 0; i < kLayers; ++i) {
    weights.push_back((randn({kWidth, kWidth}, here()) * 0.1).set_requires_grad());
    gains.push_back(ones({kWidth}, here()).set_requires_grad());
  }
  const Tensor x = randn({kBatch, kWidth}, here()).eval();
  const auto step = [&] {
    Tensor h = x;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i].zero_grad();
      gains[i].zero_grad();
      h = layer_norm(linear(h, weights[i]), {kWidth}, gains[i]);
    }
    h.square().mean().backward();
    submit(test_device());
    synchronize(test_device());
  };
  step();
  const std::uint64_t peak = usage.peak_of(step);
  // For each layer the product and the norm's result are saved; the gradient needs three buffers.
  const std::int64_t kept = (1 + 2 * kLayers + 3) * kBatch * kWidth + 2 * kLayers * kWidth * kWidth;
  EXPECT_LE(static_cast<double>(peak), 1.1 * 4 * static_cast<double>(kept));
}

// Evaluation keeps only parameters, the input, the result, and the operand and result of a layer.
TEST(PlanMemory, AForwardPassKeepsNoActivations) {
  constexpr std::int64_t kWidth = 32, kBatch = 1024;
  const Usage usage;
  const Mlp model(20, kWidth);
  const Tensor x = randn({kBatch, kWidth}, here()).eval();
  const NoGrad no_grad;
  model(x).eval();
  const std::uint64_t peak = usage.peak_of([&] { model(x).eval(); });
  const std::int64_t kept = 20 * (kWidth * kWidth + kWidth) + (2 + 2) * kBatch * kWidth;
  EXPECT_LE(static_cast<double>(peak), 1.1 * 4 * static_cast<double>(kept));
}

// All plans reuse the arena, so it does not grow with their number.
TEST(PlanMemory, PlansShareOneArena) {
  const Tensor x = randn({256, 256}, here()).eval();
  const auto run = [&](int products) {
    Tensor y = x;
    for (int i = 0; i < products; ++i) y = (y.matmul(x) * 0.01).tanh();
    y.eval();
  };
  run(6);
  const std::uint64_t arena = plan::cache_stats(test_device()).arena_bytes;
  for (int products = 2; products < 7; ++products) run(products);
  EXPECT_EQ(plan::cache_stats(test_device()).arena_bytes, arena);
}

// More plans than are kept: once the cache is full, nothing grows.
TEST(PlanMemory, AThousandPlansAreABoundedCache) {
  const ClosedSizes closed;
  const Device device = test_device();
  const auto run = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t n = first; n < first + count; ++n) {
      const Tensor x = ones({n, 3}, here()) * 0.5;
      EXPECT_EQ((x.softmax(1) + x).sum().item() > 0, true);
    }
  };
  const Counters before = counters();
  run(1, 1000);
  EXPECT_GE(counters().plans_built - before.plans_built, 1000u);
  run(1001, static_cast<std::int64_t>(plan::kMaxPlans) - 900);
  synchronize(device);
  const plan::CacheStats full = plan::cache_stats(device);
  const MemoryStats memory = memory_stats(device);
  EXPECT_EQ(full.plans, plan::kMaxPlans);
  EXPECT_LE(full.groupings, plan::GroupingCache::kMaxEntries);
  run(3001, 1000);
  synchronize(device);
  const plan::CacheStats later = plan::cache_stats(device);
  EXPECT_EQ(later.plans, plan::kMaxPlans);
  EXPECT_LE(later.groupings, plan::GroupingCache::kMaxEntries);
  EXPECT_LE(later.sites, plan::kMaxPlans);
  EXPECT_LE(later.arena_bytes, full.arena_bytes + (1u << 20));  // a few more rows
  // Only the kept outputs of cached plans remain; those of evicted plans are released.
  EXPECT_LE(memory_stats(device).in_use, memory.in_use + (1u << 20));
}

}  // namespace
}  // namespace volta
