// Scatter-add by segments, scans and sorts: the bytes that they move, their number of kernels, and
// that their bits depend on neither threads nor runs.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "kernel/emit/sort_templates.h"
#include "plan/expand/scatter.h"
#include "support/nvrtc_compile.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::vector<std::int64_t> some_ids(std::int64_t count, std::int64_t rows, bool skewed) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::uint32_t state = 12345;
  for (std::int64_t& id : ids) {
    state = state * 1664525u + 1013904223u;
    const auto random = static_cast<std::int64_t>(state >> 8);
    id = skewed && random % 4 != 0 ? rows / 2 : random % rows;
  }
  return ids;
}

struct Embedding {
  Tensor weight, ids, weights;

  Embedding(std::int64_t rows, std::int64_t columns, std::int64_t count, bool skewed = false)
      : weight(zeros({rows, columns}, {.device = test_device(), .requires_grad = true})),
        ids(from_vector(some_ids(count, rows, skewed), {.device = test_device()})),
        weights((arange(count * columns, {.dtype = DType::f32, .device = test_device()}) * 1e-3)
                    .sin()
                    .reshape({count, columns})
                    .eval()) {
    weight.eval();
  }

  Tensor gradient() const {
    weight.zero_grad();
    embedding(weight, ids).backward(weights);
    return weight.grad();
  }
};

TEST(Segments, AnEmbeddingGradientMovesHitsAndTableOnly) {
  const std::int64_t rows = 50257, columns = 64, count = 4096;
  const Embedding table(rows, columns, count);
  const Tensor gradient = table.gradient();
  std::uint64_t bytes = 0;
  for (const StepInfo& step : explain(gradient).steps)
    bytes += step.bytes_read + step.bytes_written;
  const std::uint64_t hits = count * columns * 4, whole = rows * columns * 4;
  // The hits twice (chunks may read them, too), the table once, and a few words per row and per id.
  EXPECT_LE(bytes, 2 * hits + whole + 64 * rows + 64 * count);
  EXPECT_GE(bytes, hits + whole);
}

TEST(Segments, TimeFollowsTheHitsNotRowsTimesIds) {
  // 13 G comparisons would take seconds; the segments take milliseconds.
  const Embedding table(50257, 64, 4096);
  table.gradient().eval();
  synchronize(test_device());
  const auto start = std::chrono::steady_clock::now();
  table.gradient().eval();
  synchronize(test_device());
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 1.0);
}

TEST(Segments, SkewedIdsAreSummedInChunks) {
  const Embedding table(1000, 64, 1 << 16, true);
  const Tensor gradient = table.gradient();
  int rows = 0;
  for (const StepInfo& step : explain(gradient).steps)
    rows += step.schedule.starts_with("rows, one");
  EXPECT_EQ(rows, 2);  // chunks, then segments
  const std::vector<float> values = gradient.to_vector<float>(),
                           w = table.weights.to_vector<float>();
  const std::vector<std::int64_t> ids = table.ids.to_vector<std::int64_t>();
  std::vector<double> expected(64, 0.0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != 500) continue;
    for (std::size_t j = 0; j < 64; ++j) expected[j] += static_cast<double>(w[i * 64 + j]);
  }
  for (std::size_t j = 0; j < 64; ++j) EXPECT_NEAR(values[500 * 64 + j], expected[j], 2e-2);
}

TEST(Segments, SmallTablesFuse) {
  EXPECT_TRUE(plan::scatter_compares_all(10, 32, 8));
  EXPECT_TRUE(plan::scatter_compares_all(1 << 16, 1, 1));
  EXPECT_TRUE(plan::scatter_compares_all(0, 5, 4));
  EXPECT_FALSE(plan::scatter_compares_all(50257, 4096, 64));
  EXPECT_FALSE(plan::scatter_compares_all(1 << 8, 1 << 8, 2));
  const Embedding table(10, 8, 32);
  EXPECT_EQ(explain(table.gradient()).steps.size(), 1u);
}

TEST(Segments, AnUpdateFusesWithTheSum) {
  const Embedding table(5000, 32, 2000);
  const Tensor gradient = table.gradient();
  const std::size_t steps = explain(gradient).steps.size();
  gradient.eval();
  const Tensor updated = table.weight.detach() - table.gradient() * 0.1;
  EXPECT_EQ(explain(updated).steps.size(), steps);
}

template <class Compute>
void expect_same_bits(Compute compute) {
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<float> expected = compute();
  for (const int n : {1, 2, 4}) {
    set_num_threads(n);
    EXPECT_EQ(compute(), expected) << n << " threads";
  }
  set_num_threads(threads);
}

TEST(Segments, BitsDoNotDependOnThreads) {
  for (const std::int64_t columns : {1, 5, 64, 300}) {
    const Embedding table(2000, columns, 3000, true);
    expect_same_bits([&] { return table.gradient().to_vector<float>(); });
  }
}

TEST(Scans, BitsDoNotDependOnThreads) {
  for (const Shape& shape : {Shape{1 << 17}, Shape{40, 700}, Shape{900, 70}}) {
    const Tensor x = (arange(shape.numel(), {.dtype = DType::f32, .device = test_device()}) * 0.1)
                         .sin()
                         .reshape(shape)
                         .eval();
    for (int axis = 0; axis < shape.rank(); ++axis)
      expect_same_bits([&] { return x.cumsum(axis).to_vector<float>(); });
  }
}

TEST(Scans, AreOneKernelWithWhatSurroundsThem) {
  const Tensor x = ones({64, 100}, {.device = test_device()}).exp().eval();
  EXPECT_EQ(explain((x * 2).cumsum(1) + 1).steps.size(), 1u);
  EXPECT_EQ(explain((x / x.sum(1, true)).cumsum(1)).steps.size(), 1u);
  const Tensor y = x.cumsum(1);
  EXPECT_EQ(explain(y.sum(1)).steps.size(), 1u);
  // Long rows: the chunks' sums, the sums of these, then the rows themselves.
  const Tensor row = ones({1 << 16}, {.device = test_device()}).exp().eval();
  EXPECT_EQ(explain(row.cumsum(0)).steps.size(), 3u);
}

TEST(Sorts, AreOneStep) {
  const Tensor x = ones({64, 100}, {.device = test_device()}).exp().eval();
  {
    const Sorted both = sort(x, 1);
    const Explanation plan = explain(both.values);
    ASSERT_EQ(plan.steps.size(), 1u);
    EXPECT_EQ(plan.steps[0].kind, "sort");
    EXPECT_EQ(plan.steps[0].bytes_written, 64u * 100 * (4 + 8));
  }
  EXPECT_EQ(explain(argsort(x, 1)).steps.back().bytes_written, 64u * 100 * 8);
  const Tensor order = argsort(x * 2, 1);
  EXPECT_EQ(explain(order).kernels(), 1);
}

// The templates are not kernel programs, so tests that compile those do not cover them.
TEST(Sorts, TemplatesCompileForCuda) {
  const testing::Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "NVRTC is not here";
  for (const DType dtype :
       {DType::f32, DType::f64, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    kernel::SortOptions options{.dtype = dtype, .tile = 256};
    options.descending = dtype == DType::f32;
    for (const bool last : {false, true}) {
      options.last = options.has_values = last;
      options.index_dtype = last ? DType::i64 : DType::i32;
      for (const kernel::KernelSource& source :
           {kernel::emit_sort_tiles(options, kernel::Dialect::Cuda),
            kernel::emit_sort_merge(options, kernel::Dialect::Cuda)}) {
        EXPECT_FALSE(nvrtc.compile(source.text, "sm_90").empty()) << source.text;
      }
    }
  }
}

}  // namespace
}  // namespace volta
