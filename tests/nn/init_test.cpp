// Initial values: bounds, variances, orthogonality, and the device where they are made.
#include "volta/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "ops/conformance/conformance.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace init = nn::init;
using errors::expect;

TensorOptions here(std::optional<DType> dtype = std::nullopt, std::uint64_t seed = 1) {
  return {.dtype = dtype, .device = test_device(), .generator = Generator(seed)};
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};
Moments moments_of(const Tensor& x) {
  Moments result;
  const auto values = x.to(Device::cpu()).to_vector<double>();
  const double n = static_cast<double>(values.size());
  for (const double value : values) {
    result.mean += value / n;
    result.largest = std::max(result.largest, std::abs(value));
  }
  for (const double value : values)
    result.variance += (value - result.mean) * (value - result.mean) / n;
  return result;
}

// Expects the mean to be 0 within five standard errors, and the variance; an error of 1% fails.
void expect_variance(const Tensor& x, double variance, bool uniform) {
  ASSERT_GE(x.numel(), 200'000);
  const Moments m = moments_of(x);
  const double n = static_cast<double>(x.numel());
  EXPECT_LT(std::abs(m.mean), 5 * std::sqrt(variance / n));
  EXPECT_LT(std::abs(m.variance / variance - 1), 5 * std::sqrt((uniform ? 0.8 : 2) / n));
  ASSERT_LT(5 * std::sqrt((uniform ? 0.8 : 2) / n), 0.02);
  if (uniform) {
    EXPECT_LE(m.largest, std::sqrt(3 * variance) * (1 + 1e-6));
    EXPECT_GT(m.largest, std::sqrt(3 * variance) * 0.9999);
  }
}

TEST(Init, GainsAndFansAreThoseOfPyTorch) {
  using init::Nonlinearity;
  EXPECT_EQ(init::gain(Nonlinearity::linear), 1);
  EXPECT_EQ(init::gain(Nonlinearity::sigmoid), 1);
  EXPECT_DOUBLE_EQ(init::gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(init::gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(init::gain(Nonlinearity::leaky_relu), std::sqrt(2 / 1.0001));
  EXPECT_DOUBLE_EQ(init::gain(Nonlinearity::leaky_relu, 0.5), std::sqrt(2 / 1.25));
  EXPECT_EQ(init::gain(Nonlinearity::selu), 0.75);
  EXPECT_EQ(init::fans({3, 5}).in, 5);
  EXPECT_EQ(init::fans({3, 5}).out, 3);
  EXPECT_EQ(init::fans({3, 5, 2, 2}).in, 20);
  EXPECT_EQ(init::fans({3, 5, 2, 2}).out, 12);
}

TEST(Init, VariancesAreWhatTheyShouldBe) {
  const Shape shape{400, 600};
  expect_variance(init::xavier_uniform(shape, {.gain = 2}, here()), 4 * 2.0 / 1000, true);
  expect_variance(init::xavier_normal(shape, {}, here()), 2.0 / 1000, false);
  expect_variance(init::kaiming_uniform(shape, {}, here()), 2.0 / 600, true);
  expect_variance(init::kaiming_uniform(shape, {.a = std::sqrt(5.0)}, here()), 2.0 / 6 / 600, true);
  expect_variance(init::kaiming_normal(shape, {.mode = init::Fan::out}, here()), 2.0 / 400, false);
  expect_variance(init::kaiming_normal(shape, {.nonlinearity = init::Nonlinearity::tanh}, here()),
                  25.0 / 9 / 600, false);
  expect_variance(init::kaiming_uniform({100, 100, 5, 5}, {}, here()), 2.0 / 2500, true);
  expect_variance(init::normal(shape, 3, 0.5, here()) - 3, 0.25, false);
  expect_variance(init::uniform(shape, -1, 1, here()), 1.0 / 3, true);
  const Moments constant = moments_of(init::constant({3, 3}, 0.25, here()));
  EXPECT_NEAR(constant.mean, 0.25, 1e-15);
  EXPECT_LT(constant.variance, 1e-30);
}

// max |Q Qᵀ - gain² I| over the shorter side.
double defect(const Tensor& x, double gain) {
  const Tensor host = x.to(Device::cpu()).to(DType::f64);
  const Tensor q = host.reshape({x.size(0), x.numel() / x.size(0)});
  const Tensor rows = q.size(0) <= q.size(1) ? q : q.t();
  const Tensor gram = matmul(rows, rows.t());
  return (gram - eye(rows.size(0), {.dtype = DType::f64}) * (gain * gain)).abs().max().item();
}

TEST(Init, OrthogonalIsOrthogonal) {
  EXPECT_LT(defect(init::orthogonal({64, 64}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({20, 50}, {.gain = 2}, here()), 2), 4e-5);
  for (std::uint64_t seed = 2; seed < 12; ++seed)
    EXPECT_LT(defect(init::orthogonal({64, 64}, {}, here(std::nullopt, seed)), 1), 1e-5) << seed;
  EXPECT_EQ(init::orthogonal({0, 4}, {}, here()).shape(), Shape({0, 4}));
  if (!thorough()) return;  // each shape has kernels of its own
  EXPECT_LT(defect(init::orthogonal({50, 20}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({8, 3, 3, 3}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({1, 5}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({1, 1}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({300, 300}, {}, here()), 1), 1e-5);
  EXPECT_LT(defect(init::orthogonal({64, 64}, {}, here(DType::bf16)), 1), 2e-2);
  if (test_device().supports(DType::f64)) {
    EXPECT_LT(defect(init::orthogonal({64, 64}, {}, here(DType::f64)), 1), 1e-12);
  }
}

TEST(Init, OrthogonalPrefersNoDirection) {
  // Over many matrices, each element has mean 0 and variance 1 / n, and determinants have both
  // signs.
  Tensor sum = zeros({4, 4}), squares = zeros({4, 4});
  constexpr int count = 400;
  const Generator generator(6);
  int positive = 0;
  for (int i = 0; i < count; ++i) {
    const Tensor q = init::orthogonal({4, 4}, {}, {.generator = generator});
    sum += q;
    squares += q * q;
    // A rotation in the plane of the first two axes shows the sign of a 2x2 determinant.
    const auto two = init::orthogonal({2, 2}, {}, {.generator = generator}).to_vector<float>();
    positive += two[0] * two[3] - two[1] * two[2] > 0 ? 1 : 0;
  }
  EXPECT_LT((sum / count).abs().max().item(), 4.5 * std::sqrt(0.25 / count));
  EXPECT_LT((squares / count - 0.25).abs().max().item(), 4.5 * std::sqrt(0.0625 * 2 / count));
  EXPECT_NEAR(positive, count / 2.0, 4.5 * std::sqrt(count / 4.0));
}

TEST(Init, MakesValuesOnTheDevice) {
  if (test_device().is_cpu()) GTEST_SKIP() << "nothing to move";
  const Counters before = counters();
  init::xavier_uniform({64, 64}, {}, here()).eval();
  init::kaiming_normal({64, 64}, {}, here()).eval();
  init::orthogonal({64, 64}, {}, here()).eval();
  EXPECT_EQ(counters().transfers, before.transfers);
}

TEST(Init, InPlaceKeepsTheParameter) {
  nn::Linear layer(30, 20, {.device = test_device()});
  const Tensor handle = *layer.weight;
  const std::vector<std::function<void(const Tensor&)>> acts = {
      [](const Tensor& t) { init::constant_(t, 2); },
      [](const Tensor& t) { init::uniform_(t, -1, 1, Generator(9)); },
      [](const Tensor& t) { init::normal_(t, 0, 2, Generator(9)); },
      [](const Tensor& t) { init::xavier_uniform_(t, {.gain = 3}, Generator(9)); },
      [](const Tensor& t) { init::xavier_normal_(t, {}, Generator(9)); },
      [](const Tensor& t) { init::kaiming_uniform_(t, {}, Generator(9)); },
      [](const Tensor& t) { init::kaiming_normal_(t, {.a = 1}, Generator(9)); },
      [](const Tensor& t) { init::orthogonal_(t, {.gain = 2}, Generator(9)); },
  };
  const auto made = [](std::size_t i) {
    const Shape shape{20, 30};
    switch (i) {
      case 0:
        return init::constant(shape, 2, here());
      case 1:
        return init::uniform(shape, -1, 1, here(DType::f32, 9));
      case 2:
        return init::normal(shape, 0, 2, here(DType::f32, 9));
      case 3:
        return init::xavier_uniform(shape, {.gain = 3}, here(DType::f32, 9));
      case 4:
        return init::xavier_normal(shape, {}, here(DType::f32, 9));
      case 5:
        return init::kaiming_uniform(shape, {}, here(DType::f32, 9));
      case 6:
        return init::kaiming_normal(shape, {.a = 1}, here(DType::f32, 9));
      default:
        return init::orthogonal(shape, {.gain = 2}, here(DType::f32, 9));
    }
  };
  for (std::size_t i = 0; i < acts.size(); ++i) {
    acts[i](layer.weight);
    EXPECT_EQ(handle.to_vector<float>(), made(i).to_vector<float>()) << i;
    EXPECT_TRUE(layer.weight->is_leaf() && layer.weight->requires_grad()) << i;
    EXPECT_EQ(layer.weight->device(), test_device()) << i;
  }
  EXPECT_TRUE(init::xavier_normal({3, 4}, {}, {.requires_grad = true}).requires_grad());
  EXPECT_TRUE(init::orthogonal({3, 4}, {}, {.requires_grad = true}).is_leaf());
  EXPECT_EQ(init::normal({3}, 0, 1, here(DType::f16)).dtype(), DType::f16);
}

TEST(Init, Errors) {
  expect<ShapeError>([] { init::xavier_uniform({3}); },
                     "xavier_uniform: [3] has no fan in and fan out: two axes at least");
  expect<ShapeError>([] { init::xavier_normal({}); },
                     "xavier_normal: [] has no fan in and fan out: two axes at least");
  expect<ShapeError>([] { init::kaiming_uniform({3}); },
                     "kaiming_uniform: [3] has no fan in and fan out: two axes at least");
  expect<ShapeError>([] { init::kaiming_normal({3}); },
                     "kaiming_normal: [3] has no fan in and fan out: two axes at least");
  expect<ShapeError>([] { init::fans({3}); },
                     "fans: [3] has no fan in and fan out: two axes at least");
  expect<ShapeError>([] { init::orthogonal({3}); },
                     "orthogonal: [3] is no matrix: two axes at least");
  expect<ArgumentError>([] { init::normal({3}, 0, -1); }, "normal: a deviation of -1 is negative");
  expect<ArgumentError>([] { init::uniform({3}, 2, 1); }, "uniform: low 2 is not at most high 1");
  expect<DTypeError>([] { init::normal({3}, 0, 1, {.dtype = DType::i32}); },
                     "randn: expected a floating-point dtype, got i32");
  expect<ArgumentError>([] { init::constant_({}, 1); }, "constant_: the input is not a tensor");
  expect<DTypeError>([] { init::normal_(zeros({2}, {.dtype = DType::i64})); },
                     "normal_: expected a floating-point tensor, got i64");
}

}  // namespace
}  // namespace volta
