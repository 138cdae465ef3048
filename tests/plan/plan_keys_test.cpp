// Plan keys on two levels, and simplification: equal values are merged, unused ones dropped,
// literal numbers folded.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "plan/group/space.h"
#include "runtime/runner.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }

// One query against a cache of keys and values that grows by one row per step.
TEST(Keys, ASequenceThatGrowsFiveHundredTimesCompilesAlmostNothing) {
  constexpr std::int64_t kHeads = 4, kWidth = 16;
  const Tensor fresh = randn({kHeads, 1, kWidth}, here()).eval();
  Tensor keys = randn({kHeads, 12, kWidth}, here()).eval();
  Tensor values = randn({kHeads, 12, kWidth}, here()).eval();
  const auto appended = [&](const Tensor& cache) {
    const std::int64_t none[] = {0, 0, 0}, after[] = {0, 1, 0};
    const std::int64_t before[] = {0, cache.shape()[1], 0};
    return pad(cache, none, after) + pad(fresh, before, none);
  };
  const auto step = [&] {
    keys = appended(keys);
    values = appended(values);
    const Tensor scores = fresh.matmul(keys.transpose(1, 2)) * 0.25;
    scores.softmax(2).matmul(values).eval();
  };
  for (int i = 0; i < 5; ++i) step();
  const std::size_t groupings = plan::cache_stats(test_device()).groupings;
  const Counters before = counters();
  int compiling = 0;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t compiled = counters().compilations + counters().kernels_loaded;
    step();
    compiling += counters().compilations + counters().kernels_loaded != compiled;
  }
  // One plan for each order of magnitude, and for the lengths at which vectors or chunks change.
  EXPECT_LE(counters().plans_built - before.plans_built, 24u);
  // Only rows of another order of magnitude need a new schedule now and then.
  EXPECT_LE(compiling, 8);
  // Lengths of one order of magnitude share a grouping.
  EXPECT_LE(plan::cache_stats(test_device()).groupings, groupings + 16);
}

// Forward and backward passes of a block at new lengths.
TEST(Keys, ATrainingStepOfANewLengthReusesItsStructure) {
  constexpr std::int64_t kWidth = 24;
  const Tensor w = randn({kWidth, kWidth}, here()).eval().detach().set_requires_grad();
  const Tensor gain = ones({kWidth}, here()).set_requires_grad();
  const auto step = [&](std::int64_t length) {
    w.zero_grad();
    gain.zero_grad();
    const Tensor x = ones({length, kWidth}, here()) * 0.5;
    const Tensor h = layer_norm(linear(x, w), {kWidth}, gain).gelu();
    const Tensor scores = h.matmul(h.t()).softmax(1);
    (scores.matmul(h) + x).square().mean().backward();
    EXPECT_TRUE(std::isfinite(w.grad().square().sum().item()));
  };
  for (std::int64_t length = 88; length < 92; ++length) step(length);
  const std::size_t groupings = plan::cache_stats(test_device()).groupings;
  const std::uint64_t compiled = counters().compilations + counters().kernels_loaded;
  for (std::int64_t length = 92; length < 112; ++length) step(length);
  EXPECT_EQ(plan::cache_stats(test_device()).groupings, groupings);
  EXPECT_EQ(counters().compilations + counters().kernels_loaded, compiled);
}

// Equal dimensions are part of the structure: a square differs from other rectangles.
TEST(Keys, AStructureThatDoesNotFitIsGroupedAnew) {
  const auto run = [](std::int64_t rows, std::int64_t columns) {
    const Tensor x = arange(rows * columns, here()).reshape({rows, columns}).to(DType::f32);
    const Tensor y = x * 2, z = x.t() + 1;
    submit(test_device());
    EXPECT_EQ(y.sum().item(), static_cast<double>(rows * columns * (rows * columns - 1)));
    EXPECT_EQ(z.to_vector<float>()[1], static_cast<float>(columns + 1));
  };
  run(12, 9);
  run(11, 10);
  run(10, 10);
  run(13, 10);
  run(8, 16);
  run(16, 8);
}

// Factors of a dimension may fit one length and not the next.
TEST(Keys, RegroupedDimensionsAreCheckedAtEverySize) {
  for (const std::int64_t n : {48, 60, 56, 50, 52, 63, 48}) {
    const std::int64_t half = n % 2 == 0 ? 2 : 1;
    const Tensor x = arange(n * 4, here()).to(DType::f32);
    const Tensor rows = x.reshape({n, 4}), pairs = x.reshape({n * 4 / half, half});
    const Tensor a = rows - rows.mean(1, true), b = pairs.sum(1), c = x * 0.5;
    submit(test_device());
    EXPECT_EQ(a.square().sum().item(), 5.0 * static_cast<double>(n));
    EXPECT_EQ(b.sum().item(), static_cast<double>(n * 4 * (n * 4 - 1)) / 2);
    EXPECT_EQ(c.to_vector<float>()[3], 1.5F);
  }
}

TEST(Simplification, EqualValuesAreComputedOnce) {
  const Tensor x = randn({40, 30}, here()).eval();
  const auto operations = [](const Tensor& y) { return explain(y).steps.front().operations; };
  // exp, and two additions.
  const std::uint64_t once = operations(x.exp() + x.exp());
  EXPECT_EQ(once, 2u * 40 * 30);
  EXPECT_EQ(operations(x.exp() + (x + 0).exp()), 2 * once);  // + 0 turns -0 into 0
  EXPECT_EQ(operations((x - 0).exp() + (x * 1).exp() / 1), once);
}

TEST(Simplification, WhatNobodyHoldsIsNotComputed) {
  const Tensor x = randn({40, 30}, here()).eval();
  const Tensor kept = x * 2;
  {
    const Tensor dropped = x.softmax(1).matmul(x.t());
    const Tensor also = kept.exp().sum();
  }
  const Explanation plan = explain(kept);
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].operations, 40u * 30);
  submit(test_device());
}

TEST(Simplification, NumbersOfTheKeyAreInTheKernelOthersAreArguments) {
  const Tensor x = randn({40, 30}, here()).eval();
  (x * 2).eval();
  (x * 0.5).eval();
  const Counters before = counters();
  for (const double number : {3.0, 4.0, 5.5}) (x * number).eval();
  EXPECT_EQ(counters().plans_built - before.plans_built, 1u);
  (x * 2).eval();
  EXPECT_EQ(counters().plans_built - before.plans_built, 1u);
}

TEST(HeldIntermediates, NeverSplitAGroup) {
  const Tensor x = randn({48, 80}, here()).eval(), w = randn({80}, here()).eval();
  std::uint64_t written = 4 * 48 * 80;
  for (std::size_t held = 0; held < 6; ++held) {
    std::vector<Tensor> outputs;
    {
      const Tensor mean = x.mean(1, true), d = x - mean;
      const Tensor var = d.square().mean(1, true), r = (var + 1e-5).rsqrt(), n = d * r;
      outputs = {n * w, mean, d, var, r, n};
    }
    outputs.resize(1 + held);
    if (held > 0) written += 4 * static_cast<std::uint64_t>(outputs[held].numel());
    const Explanation plan = explain(outputs);
    EXPECT_EQ(plan.kernels(), 1);
    EXPECT_EQ(plan.steps[0].bytes_read, 4u * (48 * 80 + 80));
    EXPECT_EQ(plan.steps[0].bytes_written, written);
    submit(test_device());
  }
}

TEST(Spaces, AgreeUpToFactors) {
  using plan::common_space;
  using plan::Space;
  const auto plain = [](std::vector<plan::Extent> dims) {
    const std::size_t count = dims.size();
    return Space{std::move(dims), std::vector<bool>(count, false)};
  };
  EXPECT_EQ(common_space(plain({12}), plain({3, 4})), plain({3, 4}));
  EXPECT_EQ(common_space(plain({6, 4}), plain({2, 12})), plain({2, 3, 4}));
  EXPECT_EQ(common_space(plain({4, 6}), plain({6, 4})), std::nullopt);
  EXPECT_EQ(common_space(plain({4, 6}), plain({24, 2})), std::nullopt);
  EXPECT_EQ(common_space(plain({0, 6}), plain({0})), std::nullopt);
  // Rows: over everything, over the kept dimensions, and with other reductions.
  const Space rows{{8, 12}, {false, true}};
  EXPECT_EQ(common_space(rows, plain({8, 3, 4})), (Space{{8, 3, 4}, {false, true, true}}));
  EXPECT_EQ(common_space(plain({2, 4}), rows), (Space{{2, 4, 12}, {false, false, true}}));
  EXPECT_EQ(common_space(rows, plain({12})), std::nullopt);
  EXPECT_EQ(common_space(rows, (Space{{8, 3, 4}, {false, true, true}})),
            (Space{{8, 3, 4}, {false, true, true}}));
  EXPECT_EQ(common_space(rows, (Space{{8, 12}, {true, false}})), std::nullopt);
  EXPECT_EQ(common_space(rows, (Space{{8, 3, 4}, {false, false, true}})), std::nullopt);
}

// The shape of a gradient does not follow from the gradient that it is computed from or from the
// attributes.
TEST(Keys, WhatDiffersOnlyInItsShapeIsAnotherPlan) {
  const auto slope = [](const Shape& shape, const auto& function) {
    const Tensor x = rand(shape, here()).eval().detach().set_requires_grad();
    const Tensor y = function(x).eval();
    y.backward(ones(y.shape(), here()).eval());
    return x.grad().to_vector<float>();
  };
  const Tensor ids = from_vector(std::vector<std::int64_t>{1, 0}, {2}, here(DType::i64)).eval();
  const auto expect_slopes = [&](const auto& function, const auto& ones) {
    for (const std::int64_t n : {7, 8, 9}) {
      std::vector<float> expected(static_cast<std::size_t>(n), 0);
      std::fill_n(expected.begin(), ones(n), 1.0f);
      EXPECT_EQ(slope({n}, function), expected) << n;
    }
  };
  const auto all_windows = [](std::int64_t) { return 6; };
  expect_slopes([](const Tensor& x) { return x.narrow(0, 0, 7).unfold(0, 3, 3); }, all_windows);
  expect_slopes([](const Tensor& x) { return x.unfold(0, 4, 4); },
                [](std::int64_t n) { return n / 4 * 4; });
  const auto two = [](std::int64_t) { return 2; };
  expect_slopes([&](const Tensor& x) { return x.index({ids}); }, two);
  expect_slopes([&](const Tensor& x) { return take_along_axis(x, ids, 0); }, two);
  const Tensor x = ones({1, 1, 3, 3}, here()).eval(), w = ones({1, 1, 2, 2}, here()).eval();
  for (const std::int64_t more : {0, 1}) {
    const Tensor y = conv_transpose2d(x, w, {}, {.stride = 2, .output_padding = more});
    EXPECT_EQ(y.sum().item(), 36) << more;
    EXPECT_EQ(y.to_vector<float>().size(), static_cast<std::size_t>((6 + more) * (6 + more)));
  }
}

}  // namespace
}  // namespace volta
