// Bias and activations as part of the product before them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype = DType::f32) {
  manual_seed(seed);
  return randn(shape, {.device = test_device()}).to(dtype).eval();
}

// Whether the library here supports epilogues; cuBLASLt always does.
bool fuses(DType dtype = DType::f32) {
  if (test_device().type() == DeviceType::cuda) return true;
  const Explanation plan =
      explain(linear(noise({96, 64}, 1, dtype), noise({80, 64}, 2, dtype), noise({80}, 3, dtype)));
  return plan.kernels() == 0;
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance) {
  const Tensor wide = expected.to(DType::f64);
  const double largest = wide.abs().max().item<double>(),
               off = (actual.to(DType::f64) - wide).abs().max().item<double>();
  EXPECT_LE(off, tolerance * largest);
}

struct Layer {
  Layer(const Shape& input, std::int64_t outputs, DType dtype = DType::f32)
      : x(noise(input, 1, dtype)),
        w(noise({outputs, input[input.rank() - 1]}, 2, dtype)),
        b(noise({outputs}, 3, dtype)) {}
  Tensor x, w, b;
  Tensor wide_sum() const {
    return matmul(x.to(DType::f64), w.to(DType::f64).t()) + b.to(DType::f64);
  }
};

TEST(Epilogues, ALinearLayerIsOneCall) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  for (const Shape& input : {Shape{96, 64}, Shape{4, 24, 64}}) {
    const Layer layer(input, 80);
    const Tensor plain = linear(layer.x, layer.w, layer.b);
    EXPECT_EQ(explain(plain).kernels(), 0);
    EXPECT_EQ(explain(plain).library_calls(), 1);
    expect_near(plain, layer.wide_sum(), 1e-6);
    const Tensor y = relu(linear(layer.x, layer.w, layer.b));
    EXPECT_EQ(explain(y).kernels(), test_device().is_cpu() ? 1 : 0);
    expect_near(y, relu(layer.wide_sum()), 1e-6);
  }
}

// A layer that has diverged shows NaN and infinity.
TEST(Epilogues, NanAndInfinityPass) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto count = [](const Tensor& which) { return which.to(DType::i64).sum().item(); };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    // The last ones are large enough to be timed.
    for (const auto& [rows, depth, columns] : {std::tuple{64, 96, 80},
                                               {64, 96, 17},
                                               {64, 96, 3},
                                               {300, 96, 8},
                                               {65, 97, 129},
                                               {8, 4096, 16},
                                               {1024, 64, 72},
                                               {72, 136, 1000},
                                               {512, 512, 512},
                                               {520, 776, 1032}}) {
      Tensor x = noise({rows, depth}, 1, dtype), b = noise({columns}, 3, dtype);
      const Tensor w = noise({columns, depth}, 2, dtype);
      x[3] = nan;
      b[1] = inf;
      for (const bool with_bias : {true, false}) {
        const Tensor y = relu(linear(x, w, with_bias ? b : Tensor()));
        EXPECT_EQ(count(isnan(y)), columns) << columns << " columns";
        EXPECT_EQ(count(isinf(y)), with_bias ? rows - 1 : 0) << columns << " columns";
      }
    }
  }
}

// The values are the same, whatever the library does for a shape.
TEST(Epilogues, EveryShapeOfProduct) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  for (const auto& [rows, depth, columns] :
       {std::tuple{300, 40, 8}, {2, 9000, 40}, {700, 300, 500}, {33, 65, 129}, {1, 512, 300}}) {
    const Layer layer({rows, depth}, columns);
    expect_near(relu(linear(layer.x, layer.w, layer.b)), relu(layer.wide_sum()), 2e-6);
  }
}

TEST(Epilogues, WhatSomebodyHoldsIsNotLeftOut) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const Layer layer({96, 64}, 80);
  const Tensor sum = linear(layer.x, layer.w, layer.b), y = relu(sum);
  expect_near(sum, layer.wide_sum(), 1e-6);
  expect_near(y, relu(layer.wide_sum()), 1e-6);
}

// Other additions are not a bias: along the other axis, of a whole matrix, of one number.
TEST(Epilogues, OtherSumsAreNoBias) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const Layer layer({80, 64}, 80);
  const Tensor product = matmul(layer.x.to(DType::f64), layer.w.to(DType::f64).t());
  const auto times = [&] { return matmul(layer.x, layer.w.t()); };
  const Tensor column = layer.b.reshape({80, 1}), matrix = noise({80, 80}, 7);
  expect_near(times() + column, product + column.to(DType::f64), 1e-6);
  expect_near(times() + matrix, product + matrix.to(DType::f64), 1e-6);
  expect_near(times() + 2.5, product + 2.5, 1e-6);
  expect_near(layer.b - times(), layer.b.to(DType::f64) - product, 1e-6);
  expect_near(maximum(times(), layer.b), maximum(product, layer.b.to(DType::f64)), 1e-6);
}

// The bias is computed in the same step.
TEST(Epilogues, ABiasThatIsAResult) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const Layer layer({96, 64}, 80);
  const Tensor y = relu(linear(layer.x, layer.w, layer.b * 2 - 1));
  expect_near(y, relu(layer.wide_sum() + layer.b.to(DType::f64) - 1), 1e-6);
}

TEST(Epilogues, HalvesAreRoundedOnceAtTheEnd) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double unit = dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 2048;
    const Layer layer({96, 64}, 80, dtype);
    const Tensor y = relu(linear(layer.x, layer.w, layer.b));
    if (fuses(dtype)) {
      EXPECT_LE(explain(y).kernels(), 1);
    }
    EXPECT_EQ(y.dtype(), dtype);
    // Half a unit of each element, and the error of the sum.
    const Tensor wide = relu(layer.wide_sum());
    const Tensor off = (y.to(DType::f64) - wide).abs() - wide.abs() * (unit * 1.001);
    EXPECT_LE(off.max().item<double>(), 1e-4);
  }
}

TEST(Epilogues, GradientsGoThrough) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const Layer layer({96, 64}, 80);
  const auto gradients = [&](DType dtype) {
    std::vector<Tensor> leaves;
    for (const Tensor& value : {layer.x, layer.w, layer.b}) {
      leaves.push_back(value.clone().to(dtype).eval());
      leaves.back().set_requires_grad(true);
    }
    const Tensor h = relu(linear(leaves[0], leaves[1], leaves[2]));
    (h * h).sum().backward();
    return std::vector<Tensor>{leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  };
  const std::vector<Tensor> narrow = gradients(DType::f32), wide = gradients(DType::f64);
  for (std::size_t i = 0; i < wide.size(); ++i) expect_near(narrow[i], wide[i], 3e-6);
}

// The variants of two layers with GELU between them.
struct Asked {
  bool with_bias = true;
  bool held = false;      // the operand of GELU is held
  bool observed = false;  // the result is read before the backward pass
  std::int64_t hidden = 80;
};

// The results of the two layers, computed in one dtype.
std::vector<Tensor> two_layers(DType stored, DType computed, Asked asked) {
  std::vector<Tensor> leaves;
  const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
    Tensor values = noise(shape, seed, stored).to(computed).eval();
    values.set_requires_grad(true);
    leaves.push_back(values);
    return values;
  };
  const Tensor x = leaf({96, 64}, 1), w = leaf({asked.hidden, 64}, 2),
               v = leaf({72, asked.hidden}, 3);
  const Tensor b = asked.with_bias ? leaf({asked.hidden}, 4) : Tensor();
  const Tensor g = noise({96, 72}, 5, stored).to(computed).eval();
  Tensor sum = linear(x, w, b);
  const Tensor y = linear(gelu(sum, {.tanh = true}), v);
  std::vector<Tensor> results{y.detach()};
  if (asked.held) results.push_back(sum.detach());
  sum = Tensor();
  if (asked.observed) static_cast<void>(results[0].eval());
  y.backward(g);
  for (const Tensor& value : leaves) results.push_back(value.grad());
  for (Tensor& result : results) result.eval();
  return results;
}

TEST(Epilogues, GeluAndItsGradientArePartsOfProducts) {
  for (const Asked& asked : {Asked{}, Asked{.with_bias = false}, Asked{.held = true},
                             Asked{.observed = true}, Asked{.hidden = 100}, Asked{.hidden = 81}}) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const std::vector<Tensor> halves = two_layers(dtype, dtype, asked),
                                wide = two_layers(dtype, DType::f64, asked);
      for (std::size_t i = 0; i < wide.size(); ++i)
        expect_near(halves[i], wide[i], dtype == DType::bf16 ? 2e-2 : 3e-3);
    }
  }
  if (test_device().type() != DeviceType::cuda) GTEST_SKIP() << "products have no GELU here";
  // The gradient of the bias alone is computed by a kernel: the library takes three times as long.
  Layer layer({96, 64}, 80, DType::bf16);
  Tensor v = noise({72, 80}, 5, DType::bf16);
  const Tensor g = noise({96, 72}, 6, DType::bf16);
  for (Tensor* t : {&layer.x, &layer.w, &layer.b, &v}) t->set_requires_grad(true);
  const Tensor y = linear(gelu(linear(layer.x, layer.w, layer.b), {.tanh = true}), v);
  y.backward(g);
  const std::vector<Tensor> results{y.detach(), layer.x.grad(), layer.w.grad(), layer.b.grad(),
                                    v.grad()};
  const Explanation plan = explain(std::span<const Tensor>(results));
  EXPECT_EQ(plan.library_calls(), 6) << plan;
  EXPECT_LE(plan.kernels(), 2) << plan;
}

// If kernels read the result anyway, they add the bias.
TEST(Epilogues, KernelsAddTheBiasOnTheWay) {
  if (!fuses()) GTEST_SKIP() << "products have no epilogues here";
  const Layer layer({96, 64}, 80);
  const Tensor other = noise({96, 80}, 9);
  const Tensor y = linear(layer.x, layer.w, layer.b) * other;
  const Explanation plan = explain(y);
  EXPECT_EQ(plan.kernels(), 1);
  EXPECT_EQ(plan.steps.front().what.find("bias"), std::string::npos);
  expect_near(y, layer.wide_sum() * other.to(DType::f64), 1e-6);
}

// Two convolutions with operations in between. Images that only the second one reads are written
// once.
Tensor two_convolutions(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& v) {
  return conv2d(relu(conv2d(x, w, b, {.padding = 1})), v, {}, {.padding = 1});
}

TEST(Epilogues, ConvolutionsAddTheirBias) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = noise({4, 8, 12, 12}, 1, dtype), w = noise({16, 8, 3, 3}, 2, dtype),
                 b = noise({16}, 3, dtype), v = noise({8, 16, 3, 3}, 4, dtype);
    const Tensor y = two_convolutions(x, w, b, v);
    const auto wide = [](const Tensor& t) { return t.to(DType::f64); };
    expect_near(y, two_convolutions(wide(x), wide(w), wide(b), wide(v)),
                dtype == DType::f32 ? 1e-5 : 2e-2);
  }
}

TEST(Epilogues, ABiasBetweenConvolutionsCostsNoKernel) {
  const Tensor x = noise({4, 12, 12, 8}, 1), w = noise({16, 8, 3, 3}, 2), b = noise({16}, 3),
               v = noise({8, 16, 3, 3}, 4);
  const auto two = [&](const Tensor& bias) {
    const Tensor images = x.permute({0, 3, 1, 2});
    return conv2d(conv2d(images, w, bias, {.padding = 1}), v, {}, {.padding = 1})
        .permute({0, 2, 3, 1});
  };
  const Explanation plain = explain(two({})), biased = explain(two(b));
  if (plain.library_calls() != 2) GTEST_SKIP() << "no library for convolutions";
  EXPECT_EQ(biased.kernels(), plain.kernels()) << biased;
  EXPECT_EQ(biased.library_calls(), 2);
}

TEST(Epilogues, NanAndInfinityPassThroughConvolutions) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor x = noise({2, 8, 12, 12}, 1, dtype), b = noise({16}, 3, dtype);
    const Tensor w = noise({16, 8, 3, 3}, 2, dtype), v = noise({8, 16, 1, 1}, 4, dtype);
    x[0] = std::nan("");
    b[1] = std::numeric_limits<double>::infinity();
    const Tensor y = conv2d(relu(conv2d(x, w, b, {.padding = 1})), v);
    const auto count = [](const Tensor& which) { return which.to(DType::i64).sum().item(); };
    EXPECT_EQ(count(isnan(y)), y.numel() / 2);
    EXPECT_EQ(count(isinf(y)), y.numel() / 2);
  }
}

}  // namespace
}  // namespace volta
