// Decisions of the planner: which values are stored, how reductions are split, what explain prints.
#include <gtest/gtest.h>

#include <sstream>

#include "plan/group/grouping.h"
#include "plan/lower/split.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

// If several kernels compute a value themselves, each reads its operands. If it is stored, one
// kernel reads them and writes the value, and the others read that.
TEST(RecomputeOrStore, DecidesByBytes) {
  const auto stored = [](std::int64_t value, std::vector<std::int64_t> operands) {
    return plan::storing_saves({.value_bytes = value, .operand_bytes = std::move(operands)}) > 0;
  };
  constexpr std::int64_t kMega = 1'000'000;
  // One operand of the same size: recomputing reads as much as loading the result would.
  EXPECT_FALSE(stored(kMega, {kMega, kMega}));
  EXPECT_FALSE(stored(kMega, {kMega, kMega, kMega, kMega}));
  // Two operands, two kernels: four passes either way, and ties are not stored.
  EXPECT_FALSE(stored(kMega, {2 * kMega, 2 * kMega}));
  EXPECT_TRUE(stored(kMega, {3 * kMega, 3 * kMega}));
  // Two operands, three kernels: six passes against two, a write and two reads.
  EXPECT_TRUE(stored(kMega, {2 * kMega, 2 * kMega, 2 * kMega}));
  // Too little to be worth the risk of another kernel.
  EXPECT_FALSE(stored(4, {12, 12, 12}));
  // A single kernel shares nothing.
  EXPECT_FALSE(stored(kMega, {10 * kMega}));
  // A kernel that reads the operands anyway recomputes at no cost.
  EXPECT_FALSE(stored(kMega, {4 * kMega, 0}));
  EXPECT_FALSE(stored(kMega, {0, 0, 0}));
  // A large value made from a small one (a broadcast) is computed wherever it is used.
  EXPECT_FALSE(stored(kMega, {20, 20, 20}));
}

// If an earlier kernel computes the operands, it can store the value itself, and operands that then
// need not be stored count too.
TEST(RecomputeOrStore, CutsWhereFewestBytesPass) {
  const auto saves = [](std::int64_t value, std::int64_t operands, std::int64_t producer,
                        std::int64_t spared) {
    return plan::storing_saves({.value_bytes = value,
                                .operand_bytes = {operands},
                                .producer_bytes = producer,
                                .spared_bytes = spared});
  };
  // Three sums of a row and their quotient: six passes against two.
  EXPECT_EQ(saves(100, 300, 0, 300), 400);
  // One sum and its root: the same either way.
  EXPECT_EQ(saves(100, 100, 0, 100), 0);
  // The sums must be in memory anyway.
  EXPECT_EQ(saves(100, 100, 0, 0), -100);
  // A comparison takes one byte where an index takes eight; labels are read by one or the other.
  EXPECT_EQ(saves(64, 64 * 16, 64 * 8, 64 * 8), 64 * 16 - 64 * 2);
}

TEST(ReductionChunks, DependOnExtentsAlone) {
  using plan::reduction_chunks;
  // Rows that are numerous or short are not split.
  EXPECT_EQ(reduction_chunks(8192, 1, true, true), 1);
  EXPECT_EQ(reduction_chunks(1'000'000, 128, true, true), 1);
  EXPECT_EQ(reduction_chunks(8193, 1, true, true), 3);
  EXPECT_EQ(reduction_chunks(100'000'000, 1, true, false), 2048);
  // On a GPU, chunks of equal length if possible, at most 1056 in total.
  EXPECT_EQ(reduction_chunks(100'000'000, 1, true, true), 1000);
  EXPECT_EQ(reduction_chunks(100'000'007, 1, true, true), 1056);
  EXPECT_EQ(reduction_chunks(1 << 20, 1, true, true), 256);
  EXPECT_EQ(reduction_chunks(10'000'000, 100, true, true), 10);
  // Columns: enough threads for a GPU, enough work for two cores.
  EXPECT_EQ(reduction_chunks(128, 1024, false, true), 1);
  EXPECT_EQ(reduction_chunks(1024, 1024, false, true), 64);
  EXPECT_EQ(reduction_chunks(16384, 384, false, true), 1024);
  EXPECT_EQ(reduction_chunks(802816, 32, false, true), 8192);
  EXPECT_EQ(reduction_chunks(8192, 32, false, true), 1);  // the results of the chunks
  EXPECT_EQ(reduction_chunks(8192, 8192, false, true), 64);
  EXPECT_EQ(reduction_chunks(1000, 64, false, true), 1);
  EXPECT_EQ(reduction_chunks(262144, 64, false, true), 4096);
  EXPECT_EQ(reduction_chunks(1'000'000, 65536, false, true), 1);
  EXPECT_EQ(reduction_chunks(128, 1024, false, false), 1);
  EXPECT_EQ(reduction_chunks(127, 10, false, true), 1);
}

TEST(ReductionChunks, ALongSumIsRightWhateverItsLength) {
  for (const std::int64_t n : {8193, 100'003, 1 << 20}) {
    const Tensor x = ones({n}, {.device = test_device()}) * 0.5;
    EXPECT_EQ(x.sum().item(), 0.5 * static_cast<double>(n));
    EXPECT_EQ((arange(n, {.dtype = DType::f32, .device = test_device()}) * 0 - 3).max().item(), -3);
  }
}

TEST(Explain, NamesKernelsAndLibraryCalls) {
  const Device device = test_device();
  const Tensor a = randn({256, 256}, {.device = device}).eval();
  const Tensor y = (a.matmul(a) * 0.5 + 1).gelu().mean();
  const Explanation plan = explain(y);
  EXPECT_EQ(plan.library_calls(), 1);
  EXPECT_LE(plan.kernels(), 2);  // the mean may be split in two
  EXPECT_EQ(plan.steps.front().kind, "matmul");
  EXPECT_EQ(plan.steps.front().operations, 2u * 256 * 256 * 256);
  EXPECT_EQ(plan.steps.front().bytes_written, 256u * 256 * 4);
  EXPECT_NE(plan.steps[1].what.find("gelu"), std::string::npos) << plan.steps[1].what;
  EXPECT_TRUE(y.is_pending());  // explaining runs nothing
  std::ostringstream text;
  text << plan;
  EXPECT_NE(text.str().find("1 library call:"), std::string::npos) << text.str();
  y.eval();
  std::ostringstream done;
  done << explain(y);
  EXPECT_EQ(done.str(), "nothing pending\n");
}

TEST(Explain, SmallProductsAreKernels) {
  const auto calls = [](std::int64_t size) {
    const Tensor a = randn({size, size}, {.device = test_device()}).eval();
    const Explanation plan = explain(a.matmul(a));
    EXPECT_EQ(plan.steps.size(), 1u);
    return plan.library_calls();
  };
  EXPECT_EQ(calls(6), 0);
  // The limit for small products depends on the cost of a call.
  EXPECT_EQ(calls(32), test_device() == Device::cpu() ? 1 : 0);
}

// Products of halves go to the library unconverted if it supports them, and are rounded once.
TEST(Explain, ProductsOfHalves) {
  const TensorOptions options{.dtype = DType::bf16, .device = test_device()};
  const Tensor a = randn({64, 128}, options).eval(), b = randn({64, 128}, options).eval();
  const Tensor bias = randn({64}, options).eval();
  const Tensor product = a.matmul(b.t());  // on its own line, so that the transpose is dropped
  EXPECT_EQ(explain(product).library_calls(), 1);
  if (test_device().type() != DeviceType::cuda) return;
  EXPECT_EQ(explain(product).kernels(), 0);
  product.eval();
  const Tensor layer = linear(a, b, bias);
  EXPECT_EQ(explain(layer).kernels(), 0);
}

// A new shape of the same structure is planned again but compiles nothing.
TEST(Keys, AGrowingLengthCompilesNothing) {
  const auto step = [](std::int64_t n) {
    const Tensor x = ones({n, 40}, {.device = test_device()}) * 0.25;
    return (x.softmax(1) * x + 1).sum().item();
  };
  for (std::int64_t n = 50; n < 54; ++n) step(n);
  const Counters before = counters();
  for (std::int64_t n = 54; n < 80; ++n) EXPECT_NEAR(step(n) / static_cast<double>(n), 40.25, 1e-4);
  EXPECT_EQ(counters().compilations, before.compilations);
}

TEST(Keys, WhoHoldsWhatIsPartOfThem) {
  const Tensor x = tensor({1, 2, 3}, {3}, {.device = test_device()});
  for (int round = 0; round < 3; ++round) {
    Tensor kept;
    const auto run = [&](bool keep) {
      Tensor a = x * 2;
      const Tensor b = a + 1;
      if (keep) kept = a;
      a = Tensor();
      return b.to_vector<float>();
    };
    EXPECT_EQ(run(false), (std::vector<float>{3, 5, 7}));
    EXPECT_EQ(run(true), (std::vector<float>{3, 5, 7}));
    EXPECT_FALSE(kept.is_pending());
    EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{2, 4, 6}));
  }
}

TEST(Keys, AShapeOfAConstantIsPartOfThem) {
  const Tensor x = tensor({1, 2}, {2, 1}, {.device = test_device()});
  EXPECT_EQ((x + ones({2, 3}, {.device = test_device()})).sum().item(), 15);
  EXPECT_EQ((x + ones({2, 4}, {.device = test_device()})).sum().item(), 20);
}

}  // namespace
}  // namespace volta
