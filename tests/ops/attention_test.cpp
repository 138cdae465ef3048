// Attention beyond PyTorch's values: blocks of queries, dropout, memory, kernels, second order.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/attributes/attention.h"
#include "ops/conformance/conformance.h"
#include "volta/volta.h"

namespace volta {
namespace {

using conformance::numbers;
using conformance::upload;

// Limits the number of queries of a head that are processed at once, while it lives.
class RowsAtOnce {
 public:
  explicit RowsAtOnce(std::int64_t rows) {
    graph::attention_limits() = {.bytes = 1, .least_rows = rows};
  }
  ~RowsAtOnce() { graph::attention_limits() = {}; }
  RowsAtOnce(const RowsAtOnce&) = delete;
  RowsAtOnce& operator=(const RowsAtOnce&) = delete;
};

struct Case {
  Shape q, kv;
  bool causal = false;
  std::optional<Shape> mask = {};
  bool additive = false;
  double dropout = 0;
  DType dtype = DType::f32;
};

// Returns the output, and the gradients of q, k, v and an additive mask.
std::vector<std::vector<double>> results_of(const Case& c, Device device = test_device()) {
  const auto operand = [&](const Shape& shape, double start) {
    return upload(numbers(shape, -2, 2, c.dtype, start), true).to(device).detach();
  };
  std::vector<Tensor> leaves{operand(c.q, 0.1), operand(c.kv, 0.2), operand(c.kv, 0.3)};
  AttentionOptions options{.causal = c.causal, .dropout = c.dropout, .generator = Generator(7)};
  if (c.mask && c.additive) {
    leaves.push_back(operand(*c.mask, 0.4));
  } else if (c.mask) {
    options.mask = operand(*c.mask, 0.4).to(DType::f32) > -0.8;
  }
  for (Tensor& leaf : leaves) leaf.set_requires_grad();
  if (c.mask && c.additive) options.mask = leaves[3];
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
  y.backward(operand(c.q, 0.6));
  std::vector<std::vector<double>> all{y.to_vector<double>()};
  for (const Tensor& leaf : leaves) all.push_back(leaf.grad().to_vector<double>());
  return all;
}

void expect_close(const std::vector<std::vector<double>>& actual,
                  const std::vector<std::vector<double>>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t r = 0; r < actual.size(); ++r) {
    double largest = 1;  // or noise around 0
    for (const double value : expected[r]) largest = std::max(largest, std::fabs(value));
    ASSERT_EQ(actual[r].size(), expected[r].size());
    for (std::size_t i = 0; i < actual[r].size(); ++i)
      ASSERT_NEAR(actual[r][i], expected[r][i], tolerance * largest)
          << "result " << r << " at " << i;
  }
}

void expect_blocks_give_the_same(const Case& c, std::span<const std::int64_t> rows,
                                 double tolerance = 1e-5) {
  const auto whole = results_of(c);
  for (const std::int64_t n : rows) {
    SCOPED_TRACE("rows at once: " + std::to_string(n));
    const RowsAtOnce few(n);
    expect_close(results_of(c), whole, tolerance);
  }
}

// The sizes are large enough for library products and for the planner to merge kernels.
TEST(Attention, BlocksOfQueriesGiveTheSame) {
  const std::int64_t rows[] = {50};
  expect_blocks_give_the_same({.q = {1, 4, 130, 16},
                               .kv = {1, 2, 130, 16},
                               .causal = true,
                               .mask = Shape{1, 130},
                               .dropout = 0.2},
                              rows);
  if (!thorough()) return;
  const std::int64_t others[] = {16, 60};
  expect_blocks_give_the_same({.q = {2, 2, 100, 32}, .kv = {2, 2, 120, 32}}, others);
  expect_blocks_give_the_same({.q = {2, 2, 100, 32}, .kv = {2, 2, 120, 32}, .causal = true},
                              others);
  expect_blocks_give_the_same(
      {.q = {2, 2, 64, 32}, .kv = {2, 2, 64, 32}, .causal = true, .dtype = DType::bf16}, others,
      1e-2);
  // More blocks than one kernel can join.
  const std::int64_t many[] = {2};
  expect_blocks_give_the_same({.q = {1, 1, 600, 16}, .kv = {1, 1, 64, 16}}, many);
}

// Blocks of one row and of several, with a remainder, all in kernels.
TEST(Attention, BlocksOfFewQueriesGiveTheSame) {
  if (!thorough()) GTEST_SKIP() << "too many kernels to compile";
  const std::int64_t rows[] = {1, 3, 4, 12};
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.4}) {
      const auto check = [&](const Shape& q, const Shape& kv) {
        expect_blocks_give_the_same({.q = q, .kv = kv, .causal = causal, .dropout = dropout}, rows);
      };
      check({2, 2, 12, 8}, {2, 2, 12, 8});
      check({1, 2, 19, 4}, {1, 2, 9, 4});
      check({2, 6, 9, 4}, {2, 2, 14, 4});
    }
  }
}

TEST(Attention, BlocksOfMasksGiveTheSame) {
  if (!thorough()) GTEST_SKIP() << "too many kernels to compile";
  const std::int64_t rows[] = {1, 3};
  for (const bool additive : {false, true}) {
    for (const Shape& mask : {Shape{2, 3, 7, 5}, Shape{7, 5}, Shape{1, 5}, Shape{7, 1}, Shape{}}) {
      for (const bool causal : {false, true}) {
        expect_blocks_give_the_same({.q = {2, 3, 7, 4},
                                     .kv = {2, 3, 5, 4},
                                     .causal = causal,
                                     .mask = mask,
                                     .additive = additive},
                                    rows);
      }
    }
  }
}

// ---- Dropout.

TEST(Attention, DropoutIsTheSameOnEveryDevice) {
  const Case c{.q = {2, 4, 10, 8}, .kv = {2, 2, 9, 8}, .causal = true, .dropout = 0.4};
  expect_close(results_of(c), results_of(c, Device::cpu()), 1e-5);
}

// With the values 1, an output is the sum of the weights that dropout keeps in a row.
TEST(Attention, DropoutKeepsTheExpectation) {
  const TensorOptions here{.device = test_device()};
  const Tensor q = randn({4, 4, 64, 8}, here), k = randn({4, 4, 64, 8}, here);
  const Tensor v = ones({4, 4, 64, 2}, here);
  const auto sums = [&](double p, bool training) {
    return scaled_dot_product_attention(
        q, k, v, {.dropout = p, .training = training, .generator = Generator(3)});
  };
  EXPECT_NEAR(sums(0.3, true).mean().item(), 1, 0.02);
  EXPECT_GT(sums(0.3, true).var().item(), 1e-3);
  EXPECT_NEAR(sums(0.3, false).var().item(), 0, 1e-9);
  EXPECT_EQ(sums(1, true).abs().sum().item(), 0);
  // The numbers differ each time and follow the generator's position.
  const Generator numbers(5);
  const auto drawn = [&] {
    return scaled_dot_product_attention(q, k, v, {.dropout = 0.5, .generator = numbers}).eval();
  };
  const Tensor first = drawn(), second = drawn();
  EXPECT_GT((first - second).abs().max().item(), 0.1);
  EXPECT_EQ(numbers.state().offset, 2u * 4 * 4 * 64 * 64 / 4);
}

// ---- Gradients.

Tensor seen(const Shape& shape) { return upload(numbers(shape, -1, 2, DType::f32, 0.5)) > 0; }

TEST(Attention, GradientsAgreeWithDifferences) {
  const auto check = [](const Shape& q, const Shape& k, const AttentionOptions& options) {
    conformance::expect_gradients(
        {numbers(q), numbers(k, -1, 1), numbers(k, -1, 1, DType::f32, 0.7)},
        [=](const std::vector<Tensor>& in) {
          AttentionOptions same = options;
          if (same.dropout > 0) same.generator = Generator(11);
          return scaled_dot_product_attention(in[0], in[1], in[2], same);
        });
  };
  check({4, 3, 2}, {2, 3, 2}, {.causal = true, .scale = 0.8});
  if (!thorough()) return;
  check({2, 3, 3}, {2, 4, 3}, {});
  check({1, 4, 2}, {1, 3, 2}, {.mask = seen({4, 3}), .dropout = 0.3});
}

// The gradient of the sum of squares of the gradients.
TEST(Attention, SecondOrderGradientsAgreeWithDifferences) {
  const DType dtype = conformance::widest();
  const auto check = [&](const Shape& q, const Shape& k, AttentionOptions options, bool additive) {
    std::vector<Tensor> inputs{upload(numbers(q, -1, 1, dtype)),
                               upload(numbers(k, -1, 1, dtype, 0.6)),
                               upload(numbers(k, -1, 1, dtype, 0.8))};
    if (additive) inputs.push_back(upload(numbers({q[1], k[1]}, -1, 1, dtype, 0.9)));
    const CheckReport report = check_gradients(
        [&](const std::vector<Tensor>& given) {
          const EnableGrad on;
          std::vector<Tensor> in;
          for (const Tensor& x : given)
            in.push_back(x.requires_grad() ? x : x.detach().set_requires_grad());
          AttentionOptions same = options;
          same.generator = Generator(11);
          if (additive) same.mask = in[3];
          const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], same);
          Tensor sum = y.square().sum();
          for (const Tensor& g : grad({y.square().sum()}, in, {.create_graph = true}))
            sum = sum + g.square().sum();
          return sum;
        },
        inputs,
        dtype == DType::f64 ? CheckOptions{.eps = 1e-5, .tol = 1e-6} : CheckOptions{.tol = 0.02});
    EXPECT_TRUE(report.passed) << report.message;
  };
  check({4, 3, 2}, {2, 4, 2}, {.causal = true, .dropout = 0.3}, false);
  if (!thorough()) return;
  check({2, 3, 2}, {2, 3, 2}, {}, false);
  check({1, 3, 2}, {1, 3, 2}, {}, true);
  Tensor mask = seen({3, 3});
  mask = mask.logical_and(upload(conformance::Array({3, 1}, {1, 0, 1})) > 0);
  check({1, 3, 2}, {1, 3, 2}, {.mask = mask}, false);
}

// First-order gradients of the rule with history equal those of the node.
TEST(Attention, BothRulesOfTheGradientAgree) {
  const auto gradients = [](bool create_graph) {
    std::vector<Tensor> leaves{upload(numbers({2, 4, 5, 3}), true),
                               upload(numbers({2, 2, 6, 3}, -1, 1), true),
                               upload(numbers({2, 2, 6, 3}, -1, 1, DType::f32, 0.8), true),
                               upload(numbers({4, 1, 6}, -1, 1, DType::f32, 0.9), true)};
    const Tensor y = scaled_dot_product_attention(
        leaves[0], leaves[1], leaves[2],
        {.mask = leaves[3], .causal = true, .dropout = 0.2, .generator = Generator(2)});
    std::vector<std::vector<double>> all;
    for (const Tensor& g : grad({y.square().sum()}, leaves, {.create_graph = create_graph}))
      all.push_back(g.to_vector<double>());
    return all;
  };
  expect_close(gradients(true), gradients(false), 1e-5);
}

// ---- Kernels.

struct Operands {
  Tensor q, k, v;
  Operands(const Shape& shape, const Shape& kv, DType dtype = DType::f32) {
    const auto make = [&](const Shape& of) {
      Tensor made = randn(of, {.device = test_device()}).to(dtype);
      made.eval();
      made.set_requires_grad();
      return made;
    };
    q = make(shape);
    k = make(kv);
    v = make(kv);
  }
  Tensor operator()(AttentionOptions options = {}) const {
    return scaled_dot_product_attention(q, k, v, std::move(options));
  }
};

TEST(AttentionCounts, ForwardIsTwoProductsAndAKernel) {
  const NoGrad no_grad;
  const Operands plain({2, 4, 64, 32}, {2, 4, 64, 32}), grouped({2, 4, 64, 32}, {2, 2, 64, 32});
  const Tensor mask = (randn({64, 64}, {.device = test_device()}) > -1).eval();
  const auto check = [](const Operands& operands, const AttentionOptions& options) {
    const Tensor y = operands(options);
    const Explanation plan = explain(y);
    EXPECT_EQ(plan.library_calls(), 2) << plan;
    EXPECT_EQ(plan.kernels(), 1) << plan;
    y.eval();
  };
  check(plain, {});
  check(plain, {.causal = true});
  check(plain, {.mask = mask});
  check(plain, {.causal = true, .dropout = 0.1});
  check(grouped, {.causal = true});
}

// Scores and weights are recomputed, and the gradients of q, k, v follow from them.
TEST(AttentionCounts, BackwardIsFiveProductsAndTwoKernels) {
  const Operands operands({2, 4, 64, 32}, {2, 2, 64, 32});
  for (const double dropout : {0.0, 0.1}) {
    const Tensor y = operands({.causal = true, .dropout = dropout}).eval();
    const Tensor g = randn(y.shape(), {.device = test_device()}).eval();
    const std::vector<Tensor> gradients =
        grad({y}, {operands.q, operands.k, operands.v}, {.grad_outputs = {g}});
    const Explanation plan = explain(gradients);
    EXPECT_EQ(plan.library_calls(), 5) << plan;
    EXPECT_EQ(plan.kernels(), 2) << plan;
    for (const Tensor& gradient : gradients) gradient.eval();
  }
}

// ---- Memory.

// The memory that a plan needs besides operands and results, at this length.
struct Needs {
  std::uint64_t forward, backward;
};
Needs needs_at(std::int64_t length, bool causal, std::int64_t rows) {
  const RowsAtOnce few(rows);
  const Operands operands({1, 2, length, 16}, {1, 2, length, 16});
  const Tensor y = operands({.causal = causal});
  const std::uint64_t forward = explain(y).arena_bytes;
  y.eval();
  const std::vector<Tensor> gradients =
      grad({y}, {operands.q, operands.k, operands.v}, {.grad_outputs = {operands.q.detach()}});
  return {forward, explain(gradients).arena_bytes};
}

// Four times the length takes four times the memory, far less than the scores of all queries.
TEST(AttentionMemory, GrowsWithTheLengthOnly) {
  constexpr std::int64_t kShort = 256, kLong = 4 * kShort, kRows = 16;
  constexpr double kBlock = 4.0 * 2 * kRows * kLong, kAll = 4.0 * 2 * kLong * kLong,
                   kOperand = 4.0 * 2 * kLong * 16;
  for (const bool causal : {false, true}) {
    const Needs near = needs_at(kShort, causal, kRows), far = needs_at(kLong, causal, kRows);
    EXPECT_LE(static_cast<double>(far.forward), 4.4 * static_cast<double>(near.forward));
    EXPECT_LE(static_cast<double>(far.backward), 4.4 * static_cast<double>(near.backward));
    // Scores and weights of a block; the outputs of all blocks, separate and joined sixteen at a
    // time.
    EXPECT_LE(static_cast<double>(far.forward), 2 * kBlock + 2.2 * kOperand);
    // Scores, weights and their gradients; six terms of dk and dv each, dq in blocks and joined.
    EXPECT_LE(static_cast<double>(far.backward), 4 * kBlock + 15 * kOperand);
    EXPECT_LT(static_cast<double>(far.forward), kAll / 8);
  }
}

// The largest memory in use while forward and backward run.
TEST(AttentionMemory, PeakHasNoMatrixOfScores) {
  constexpr std::int64_t kLength = 1024;
  const RowsAtOnce few(32);
  const Operands operands({1, 2, kLength, 16}, {1, 2, kLength, 16});
  const auto step = [&] {
    operands.q.zero_grad();
    operands.k.zero_grad();
    operands.v.zero_grad();
    operands({.causal = true}).sum().backward();
    submit(test_device());
    synchronize(test_device());
  };
  step();
  operands.q.zero_grad();
  operands.k.zero_grad();
  operands.v.zero_grad();
  const plan::CacheStats before = plan::cache_stats(test_device());
  const std::uint64_t floor = memory_stats(test_device()).in_use - before.arena_bytes;
  reset_peak_memory(test_device());
  step();
  const plan::CacheStats after = plan::cache_stats(test_device());
  const std::uint64_t peak =
      memory_stats(test_device()).peak - floor - after.arena_bytes + after.latest_arena;
  constexpr std::uint64_t kScores = 4 * 2 * kLength * kLength;
  EXPECT_LT(peak, kScores / 3);
}

TEST(AttentionMemory, ShortSequencesAreOneBlock) {
  const Operands operands({2, 2, 64, 64}, {2, 2, 64, 64});
  const auto products = [&] {
    const Tensor y = operands();
    const int count = explain(y).library_calls();
    y.eval();
    return count;
  };
  EXPECT_EQ(products(), 2);
  const RowsAtOnce few(16);
  EXPECT_EQ(products(), 8);
}

}  // namespace
}  // namespace volta
