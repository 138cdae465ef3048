// The CPU executor's fused kernels: every step of a chain against the single operation, folds, and
// shapes that take each path through the executor (short rows, transposed tiles, remainders of
// blocks).
#include <gtest/gtest.h>
#include <volta/volta.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/cpu/vector/simd_table.h"
#include "kernel/philox.h"

namespace volta {
namespace {

using cpu::ChainOp;
using cpu::ChainRun;
using cpu::ChainStep;
using kernel::ReduceOp;
using kernel::ScalarOp;

constexpr std::size_t kMost = 256;

template <class T>
std::vector<T> numbers(std::uint64_t seed, double low = -4, double high = 4) {
  std::vector<T> values(kMost + cpu::kPad);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(low + (high - low) * kernel::philox(seed, i)[0] * 0x1p-32);
  }
  return values;
}

// The step as a function of v, a and b; `op` if it is an operation of the table on (v) or (v, a).
template <class T>
struct Step {
  ChainOp op;
  std::function<T(T, T, T)> exact;
  int operands = 1;  // besides v
};

template <class T>
std::vector<Step<T>> arithmetic_steps() {
  return {{ChainOp::Neg, [](T v, T, T) { return -v; }, 0},
          {ChainOp::Abs, [](T v, T, T) { return std::fabs(v); }, 0},
          {ChainOp::Square, [](T v, T, T) { return v * v; }, 0},
          {ChainOp::Sqrt, [](T v, T, T) { return std::sqrt(v); }, 0},
          {ChainOp::Rsqrt, [](T v, T, T) { return 1 / std::sqrt(v); }, 0},
          {ChainOp::Add, [](T v, T a, T) { return v + a; }},
          {ChainOp::Sub, [](T v, T a, T) { return v - a; }},
          {ChainOp::SubFrom, [](T v, T a, T) { return a - v; }},
          {ChainOp::Mul, [](T v, T a, T) { return v * a; }},
          {ChainOp::Div, [](T v, T a, T) { return v / a; }},
          {ChainOp::DivInto, [](T v, T a, T) { return a / v; }},
          {ChainOp::Maximum, [](T v, T a, T) { return v > a ? v : a; }},
          {ChainOp::MaximumOf, [](T v, T a, T) { return v > a ? v : a; }},
          {ChainOp::Minimum, [](T v, T a, T) { return v < a ? v : a; }},
          {ChainOp::MinimumOf, [](T v, T a, T) { return v < a ? v : a; }},
          {ChainOp::MulAdd, [](T v, T a, T b) { return std::fma(v, a, b); }, 2},
          {ChainOp::MulSub, [](T v, T a, T b) { return std::fma(v, a, -b); }, 2},
          {ChainOp::MulSubFrom, [](T v, T a, T b) { return std::fma(-v, a, b); }, 2},
          {ChainOp::AddProduct, [](T v, T a, T b) { return std::fma(a, b, v); }, 2},
          {ChainOp::SubProduct, [](T v, T a, T b) { return std::fma(-a, b, v); }, 2},
          {ChainOp::SubFromProduct, [](T v, T a, T b) { return std::fma(a, b, -v); }, 2}};
}

template <class T>
void check_steps() {
  const std::vector<T> v = numbers<T>(1, 0.1, 4), a = numbers<T>(2), b = numbers<T>(3);
  void* values[] = {const_cast<T*>(v.data()), const_cast<T*>(a.data()), const_cast<T*>(b.data())};
  for (const Step<T>& step : arithmetic_steps<T>()) {
    for (const bool uniform : {false, true}) {
      for (const std::size_t n : {1u, 5u, 16u, 17u, 64u, 100u, 256u}) {
        const ChainStep steps[] = {
            {.op = ChainOp::Load, .a = 0, .b = 0},
            {.op = step.op, .a_uniform = uniform, .b_uniform = !uniform, .a = 1, .b = 2}};
        std::vector<T> out(kMost + cpu::kPad);
        cpu::simd().chain[cpu::type_index(dtype_of<T>::value)](
            {.steps = steps, .count = 2, .values = values, .end = n, .out = out.data()});
        for (std::size_t i = 0; i < n; ++i) {
          const T want = step.exact(v[i], a[uniform ? 0 : i], b[uniform ? i : 0]);
          // Without fused multiply-add, a product is rounded first.
          const T slack = std::numeric_limits<T>::epsilon() * (step.operands == 2 ? 32 : 1);
          ASSERT_NEAR(out[i], want, slack * std::max(T{1}, std::fabs(want)))
              << "step " << static_cast<int>(step.op) << " element " << i << " of " << n;
        }
      }
    }
  }
}

TEST(CpuChains, EveryStepMatchesItsOperation) {
  check_steps<float>();
  check_steps<double>();
}

// A comparison with NaN on either side is false.
template <class T>
void check_choices() {
  std::vector<T> v = numbers<T>(1), a = numbers<T>(2), b = numbers<T>(3), c = numbers<T>(4);
  v[3] = c[7] = std::numeric_limits<T>::quiet_NaN();
  for (std::size_t i = 20; i < 40; ++i) c[i] = v[i];
  void* values[] = {v.data(), a.data(), b.data(), c.data()};
  const std::pair<ChainOp, std::function<bool(T, T)>> choices[] = {
      {ChainOp::ChooseLt, [](T x, T y) { return x < y; }},
      {ChainOp::ChooseLe, [](T x, T y) { return x <= y; }},
      {ChainOp::ChooseGt, [](T x, T y) { return y < x; }},
      {ChainOp::ChooseGe, [](T x, T y) { return y <= x; }}};
  for (const auto& [op, holds] : choices) {
    for (const bool uniform : {false, true}) {
      for (const std::size_t n : {1u, 17u, 64u, 256u}) {
        const ChainStep steps[] = {{.op = ChainOp::Load, .a = 0, .b = 0},
                                   {.op = op,
                                    .a_uniform = uniform,
                                    .b_uniform = !uniform,
                                    .c_uniform = uniform,
                                    .a = 1,
                                    .b = 2,
                                    .c = 3}};
        std::vector<T> out(kMost + cpu::kPad);
        cpu::simd().chain[cpu::type_index(dtype_of<T>::value)](
            {.steps = steps, .count = 2, .values = values, .end = n, .out = out.data()});
        for (std::size_t i = 0; i < n; ++i) {
          const T want = holds(v[i], c[uniform ? 0 : i]) ? a[uniform ? 0 : i] : b[uniform ? i : 0];
          ASSERT_EQ(out[i], want) << "step " << static_cast<int>(op) << " element " << i;
        }
      }
    }
  }
}

TEST(CpuChains, EveryChoiceIsThatOfItsComparison) {
  check_choices<float>();
  check_choices<double>();
}

// Gradients like that of relu, with comparisons in both directions and with NaN.
TEST(CpuChains, ChoicesOfTensors) {
  constexpr std::int64_t kCount = 1000;
  std::vector<float> x(kCount), g(kCount);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 7 == 0 ? 0.0F : std::sin(static_cast<float>(i));
    g[i] = std::cos(static_cast<float>(i));
  }
  x[5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor tx = from_vector(x, {kCount}), tg = from_vector(g, {kCount});
  const Tensor moved = tx * 2 - 0.5F;
  const std::vector<float> below = where(moved <= 0, tg, moved * tg).to_vector<float>(),
                           above = where(moved > 0, tg * 3, 1 - tg).to_vector<float>(),
                           same = where(tx < tx, tg, -tg).to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float m = x[i] * 2 - 0.5F;
    const float first = m <= 0 ? g[i] : m * g[i];
    if (first == first) {
      EXPECT_NEAR(below[i], first, 1e-6F) << i;
    } else {
      EXPECT_TRUE(below[i] != below[i]) << i;
    }
    EXPECT_NEAR(above[i], m > 0 ? g[i] * 3 : 1 - g[i], 1e-6F) << i;
    EXPECT_EQ(same[i], -g[i]) << i;
  }
}

// Functions give the same bits inside a chain and outside.
TEST(CpuChains, FunctionsAreThoseOfTheTable) {
  const std::vector<float> x = numbers<float>(4, 0, 120);
  void* values[] = {const_cast<float*>(x.data())};
  for (const auto& [step, op] : {std::pair{ChainOp::Exp, ScalarOp::exp},
                                 {ChainOp::Log, ScalarOp::log},
                                 {ChainOp::Tanh, ScalarOp::tanh}}) {
    const ChainStep steps[] = {{.op = ChainOp::Load}, {.op = step}};
    std::vector<float> chained(x.size()), alone(x.size());
    cpu::simd().chain[cpu::type_index(DType::f32)](
        {.steps = steps, .count = 2, .values = values, .end = kMost, .out = chained.data()});
    cpu::simd().scalar(op, DType::f32)(alone.data(), x.data(), x.data(), x.data(), kMost);
    chained.resize(kMost);  // kernels may write anything beyond
    alone.resize(kMost);
    EXPECT_EQ(chained, alone) << kernel::info(op).name;
  }
}

// Folding inside a chain gives the same bits as folding its results.
TEST(CpuChains, FoldsAreThoseOfTheResults) {
  if (!cpu::simd().chains_fold) GTEST_SKIP() << "vectors of this machine are narrower than a fold";
  const std::vector<float> x = numbers<float>(5);
  void* values[] = {const_cast<float*>(x.data())};
  const ChainStep steps[] = {{.op = ChainOp::Load}, {.op = ChainOp::Square}};
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min}) {
    std::vector<float> results(x.size()), lanes(16, 0.5f), expected(16, 0.5f);
    ChainRun run{.steps = steps, .count = 2, .values = values, .end = kMost, .out = results.data()};
    cpu::simd().chain[cpu::type_index(DType::f32)](run);
    cpu::simd().fold[static_cast<int>(op)][cpu::type_index(DType::f32)](expected.data(),
                                                                        results.data(), kMost);
    run.out = nullptr;
    run.lanes = lanes.data();
    run.fold = op;
    cpu::simd().chain[cpu::type_index(DType::f32)](run);
    EXPECT_EQ(lanes, expected) << static_cast<int>(op);
  }
}

TEST(CpuShapes, SoftmaxOfShortAndLongRows) {
  for (const std::int64_t rows : {1, 7, 64, 513, 2500}) {
    for (const std::int64_t columns : {1, 2, 3, 4, 5, 10, 16, 33, 64, 65, 129, 1000, 1500}) {
      if (rows * columns > 700'000) continue;
      manual_seed(static_cast<std::uint64_t>(rows * 1000 + columns));
      const Tensor x = randn({rows, columns});
      const std::vector<float> in = x.to_vector<float>(), out = softmax(x, 1).to_vector<float>();
      double worst = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = in.data() + r * columns;
        const double top = *std::max_element(row, row + columns);
        const double sum = std::accumulate(
            row, row + columns, 0.0, [&](double s, float v) { return s + std::exp(v - top); });
        for (std::int64_t c = 0; c < columns; ++c) {
          const double want = std::exp(row[c] - top) / sum;
          worst =
              std::max(worst, std::fabs(out[static_cast<std::size_t>(r * columns + c)] / want - 1));
        }
      }
      EXPECT_LT(worst, 2e-6) << rows << " x " << columns;
    }
  }
}

template <class T>
void check_transposes(DType dtype) {
  for (const auto& [rows, columns] :
       {std::pair{1, 300}, {3, 200}, {130, 129}, {257, 511}, {64, 1}}) {
    const Tensor x = arange(rows * columns).to(dtype).reshape({rows, columns});
    const std::vector<T> in = x.to_vector<T>();
    const std::vector<T> out = x.transpose(0, 1).template to_vector<T>();
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        ASSERT_EQ(out[static_cast<std::size_t>(c * rows + r)],
                  in[static_cast<std::size_t>(r * columns + c)])
            << name_of(dtype) << " " << rows << " x " << columns << " at " << r << ", " << c;
      }
    }
  }
}

TEST(CpuShapes, TransposesOfEverySizeOfElement) {
  check_transposes<float>(DType::f32);
  check_transposes<double>(DType::f64);
  check_transposes<std::int32_t>(DType::i32);
  check_transposes<std::int64_t>(DType::i64);
  check_transposes<std::uint8_t>(DType::u8);
}

// Sums of columns directly from memory, with remainders that do not fill a vector.
TEST(CpuShapes, ColumnSums) {
  for (const std::int64_t columns : {1, 3, 15, 16, 17, 100, 127, 128, 130, 1000, 2049}) {
    for (const std::int64_t rows : {1, 3, 4, 31, 33, 70, 500}) {
      const Tensor x = rand({rows, columns});
      const std::vector<float> in = x.to_vector<float>(), out = x.sum(0).to_vector<float>();
      for (std::int64_t c = 0; c < columns; ++c) {
        double want = 0;
        for (std::int64_t r = 0; r < rows; ++r)
          want += in[static_cast<std::size_t>(r * columns + c)];
        ASSERT_NEAR(out[static_cast<std::size_t>(c)], want, 1e-6 * want + 1e-7)
            << rows << " x " << columns << ", column " << c;
      }
    }
  }
}

}  // namespace
}  // namespace volta
