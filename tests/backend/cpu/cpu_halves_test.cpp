// Products and convolutions of bf16 on the CPU, if the library has instructions for them: against
// sums in double precision that are rounded once, with results that do not depend on the number of
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/library/matmul.h"
#include "kernel/kernel_reference.h"
#include "kernel/program.h"
#include "volta/volta.h"

namespace volta::testing {
namespace {

class CpuHalves : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::onednn_multiplies(DType::bf16)) GTEST_SKIP() << "bf16 is converted to f32 here";
  }
};

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(num_threads()) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(before_); }

 private:
  int before_;
};

using Halves = std::vector<std::uint16_t>;

Halves random_halves(std::uint64_t seed, std::int64_t count) {
  Halves values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        double_to_bfloat(std::ldexp(static_cast<double>(kernel::philox(seed, i)[0]), -31) - 1);
  }
  return values;
}

struct Sizes {
  std::int64_t m, n, k, batch = 1;
  bool shared = false;  // one right operand for the whole batch
};

// The distance between rows is `pad` elements larger than necessary; operands start at element
// `pad`.
struct Product {
  Product(const Sizes& s, bool transpose_a, bool transpose_b, std::int64_t pad, bool f32_result) {
    step.dtype = DType::bf16;
    step.f32_result = f32_result;
    step.m = s.m;
    step.n = s.n;
    step.k = s.k;
    step.batch = s.batch;
    step.transpose_a = transpose_a;
    step.transpose_b = transpose_b;
    step.lda = (transpose_a ? s.m : s.k) + pad;
    step.ldb = (transpose_b ? s.k : s.n) + pad;
    step.ldc = s.n + pad;
    step.stride_a = (transpose_a ? s.k : s.m) * step.lda;
    step.stride_b = s.shared ? 0 : (transpose_b ? s.n : s.k) * step.ldb;
    step.stride_c = s.m * step.ldc;
    step.offset_a = step.offset_b = pad;
    a = random_halves(1, pad + s.batch * step.stride_a);
    b = random_halves(2, pad + s.batch * (transpose_b ? s.n : s.k) * step.ldb);
    bias = random_halves(3, s.n);
  }

  // The results as doubles, including the space between rows.
  std::vector<double> run() const {
    const std::size_t count = static_cast<std::size_t>(step.batch * step.stride_c);
    const auto call = cpu::make_onednn_matmul(step);
    std::vector<double> wide(count);
    if (step.f32_result) {
      std::vector<float> c(count, kUntouched);
      call->run(a.data(), b.data(), c.data(), bias.data());
      std::copy(c.begin(), c.end(), wide.begin());
    } else {
      Halves c(count, double_to_bfloat(kUntouched));
      call->run(a.data(), b.data(), c.data(), bias.data());
      std::transform(c.begin(), c.end(), wide.begin(), bfloat_to_double);
    }
    return wide;
  }

  double expected(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    double sum = step.has_bias ? bfloat_to_double(bias[static_cast<std::size_t>(column)]) : 0;
    for (std::int64_t p = 0; p < step.k; ++p) {
      const std::int64_t left = step.transpose_a ? p * step.lda + row : row * step.lda + p,
                         right = step.transpose_b ? column * step.ldb + p : p * step.ldb + column;
      sum += bfloat_to_double(
                 a[static_cast<std::size_t>(step.offset_a + batch * step.stride_a + left)]) *
             bfloat_to_double(
                 b[static_cast<std::size_t>(step.offset_b + batch * step.stride_b + right)]);
    }
    return sum;
  }

  void check() const {
    const std::vector<double> c = run();
    // The errors of the sum and of rounding it to eight bits.
    const double of_sum = 2e-6 * std::sqrt(static_cast<double>(step.k)),
                 unit = step.f32_result ? 0 : 1.0 / 256;
    for (std::int64_t batch = 0; batch < step.batch; ++batch) {
      for (std::int64_t row = 0; row < step.m; ++row) {
        for (std::int64_t column = 0; column < step.n; ++column) {
          const double
              want = expected(batch, row, column),
              got = c[static_cast<std::size_t>(batch * step.stride_c + row * step.ldc + column)];
          ASSERT_NEAR(got, want, of_sum + unit * (std::abs(want) + of_sum))
              << step.m << " x " << step.n << " x " << step.k << " batch " << batch << " at " << row
              << ", " << column;
        }
      }
    }
    if (step.ldc > step.n) {
      EXPECT_EQ(c[static_cast<std::size_t>(step.n)], kUntouched);
    }
  }

  static constexpr float kUntouched = 7;
  plan::MatmulStep step;
  Halves a, b, bias;
};

// Tiles, vectors, tall products (packed), thin ones (transposed), long sums (split), batches, and
// shared operands.
constexpr Sizes kSizes[] = {{17, 33, 29},         {250, 210, 401},    {300, 192, 96},
                            {450, 100, 70},       {1, 300, 100},      {300, 1, 100},
                            {20, 24, 9001},       {5, 40, 64, 3},     {100, 10, 64, 3},
                            {70, 3, 50, 4, true}, {6, 7, 8, 40, true}};

TEST_F(CpuHalves, ProductsAreSumsRoundedOnce) {
  for (const Sizes& sizes : kSizes) {
    for (const int turned : {0, 1, 2, 3}) {
      for (const std::int64_t pad : {0, 3}) {
        for (const bool f32_result : {false, true})
          Product(sizes, (turned & 1) != 0, (turned & 2) != 0, pad, f32_result).check();
      }
    }
  }
}

TEST_F(CpuHalves, ABiasIsAddedBeforeRounding) {
  for (const bool turned : {false, true}) {
    for (const std::int64_t rows : {250, 300}) {
      Product product({rows, 192, 400}, false, turned, 0, false);
      product.step.has_bias = true;
      ASSERT_TRUE(cpu::fuses_epilogue(product.step));
      product.check();
    }
  }
}

TEST_F(CpuHalves, BitsOfProductsDoNotDependOnTheNumberOfThreads) {
  for (const Sizes& sizes : kSizes) {
    const Product product(sizes, false, true, 0, false);
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 4}) {
      const ThreadCount count(threads);
      results.push_back(product.run());
    }
    EXPECT_EQ(results[0], results[1]) << sizes.m << " x " << sizes.n << " x " << sizes.k;
    EXPECT_EQ(results[0], results[2]) << sizes.m << " x " << sizes.n << " x " << sizes.k;
  }
}

Tensor noise(const Shape& shape, std::uint64_t seed) {
  manual_seed(seed);
  return randn(shape).to(DType::bf16).eval();
}

std::vector<std::string> kinds(const Explanation& plan) {
  std::vector<std::string> kinds;
  for (const StepInfo& step : plan.steps) kinds.push_back(step.kind);
  return kinds;
}

// A product or a convolution is a single call without conversions.
TEST_F(CpuHalves, NothingIsConverted) {
  const Tensor a = noise({96, 64}, 1), b = noise({64, 80}, 2);
  EXPECT_EQ(explain(matmul(a, b)).kernels(), 0);
  EXPECT_EQ(explain(linear(a, b.t().eval(), noise({80}, 3))).kernels(), 0);
  EXPECT_EQ(explain(matmul(a, b).to(DType::f32) * 1).library_calls(), 1);
  const Tensor x = noise({4, 12, 12, 16}, 1), w = noise({24, 16, 3, 3}, 2);
  const auto convolved = [&] { return conv2d(x.permute({0, 3, 1, 2}), w).permute({0, 2, 3, 1}); };
  EXPECT_EQ(kinds(explain(convolved())), std::vector<std::string>{"convolution"});
}

struct ConvCase {
  std::int64_t n, c, h, w, o, kernel;
  Conv2dOptions options;
};

// Returns the convolution and the gradients of a weighted sum of its elements.
std::vector<Tensor> convolved(const ConvCase& test, DType dtype) {
  const auto values = [&](const Shape& shape, std::uint64_t seed) {
    return noise(shape, seed).to(dtype).eval();
  };
  Tensor x = values({test.n, test.c, test.h, test.w}, 1),
         w = values({test.o, test.c / test.options.groups, test.kernel, test.kernel}, 2);
  const Tensor y = conv2d(x.set_requires_grad(true), w.set_requires_grad(true), {}, test.options);
  y.backward(values(y.shape(), 3));
  return {y.detach(), x.grad(), w.grad()};
}

TEST_F(CpuHalves, ConvolutionsAreSumsRoundedOnce) {
  const ConvCase cases[] = {
      {1, 16, 57, 40, 32, 3, {.padding = 1}},
      {2, 16, 48, 40, 16, 3, {.stride = {1, 2}, .padding = {4, 0}, .dilation = {3, 2}}},
      {3, 16, 33, 31, 32, 3, {.padding = 2, .groups = 4}},
      {2, 32, 20, 20, 32, 3, {.padding = 1, .groups = 32}},
      {33, 1, 28, 28, 32, 3, {.padding = 1}},
      {19, 3, 32, 32, 24, 7, {.stride = 2, .padding = 3}},
      {1, 32, 40, 40, 32, 1, {.stride = 2}},
      {4, 5, 9, 9, 7, 2, {}},
  };
  for (const ConvCase& test : cases) {
    const std::vector<Tensor> halves = convolved(test, DType::bf16),
                              wide = convolved(test, DType::f64);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(halves[i].dtype(), DType::bf16);
      const double largest = wide[i].abs().max().item<double>();
      const Tensor off = (halves[i].to(DType::f64) - wide[i]).abs() - wide[i].abs() / 256;
      EXPECT_LE(off.max().item<double>(), 4e-6 * largest)
          << "result " << i << " of " << test.n << " x " << test.c << " x " << test.h;
    }
  }
}

TEST_F(CpuHalves, BitsOfConvolutionsDoNotDependOnTheNumberOfThreads) {
  for (const ConvCase& test : {ConvCase{1, 16, 57, 40, 32, 3, {.padding = 1}},
                               ConvCase{37, 8, 20, 20, 16, 3, {.padding = 1}}}) {
    std::vector<std::vector<std::vector<float>>> bits;
    for (const int threads : {1, 2, 4}) {
      const ThreadCount count(threads);
      std::vector<std::vector<float>>& results = bits.emplace_back();
      for (const Tensor& result : convolved(test, DType::bf16))
        results.push_back(result.to(DType::f32).to_vector<float>());
    }
    EXPECT_EQ(bits[0], bits[1]);
    EXPECT_EQ(bits[0], bits[2]);
  }
}

}  // namespace
}  // namespace volta::testing
