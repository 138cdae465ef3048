// Numbers beside f16 and bf16 are used as f32, forward and backward, and the result is rounded
// once. If operands are compared or selected, a number is rounded to the nearest half, as in
// PyTorch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Floats = std::vector<float>;

TensorOptions of(DType dtype) { return {.dtype = dtype, .device = test_device()}; }
Floats values(const Tensor& x) { return x.to(DType::f32).to_vector<float>(); }

Tensor leaf(Tensor x) {
  x.eval();
  return x.set_requires_grad();
}

// ---- PyTorch 2.15's results on its CPU.

TEST(HalfNumbers, AreNotRoundedBeforeTheyAreUsed) {
  EXPECT_EQ(values(tensor({1e-4, 0}, of(DType::f16)) / 1e-8), (Floats{10000, 0}));
  EXPECT_EQ(values(tensor({0.5}, of(DType::f16)) * 70000.0), (Floats{35008}));
  EXPECT_EQ(values(tensor({3}, of(DType::bf16)) * 1.003), (Floats{3.015625}));
  EXPECT_EQ(values(tensor({0.5}, of(DType::bf16)) * 70000.0), (Floats{35072}));
}

TEST(HalfNumbers, AreNotRoundedBesideConstants) {
  EXPECT_EQ(values(full({1}, 0.5, of(DType::f16)) * 70000.0), (Floats{35008}));
  EXPECT_EQ(values(full({1}, 3, of(DType::bf16)) * 1.003), (Floats{3.015625}));
  EXPECT_EQ(values(full({2}, 1e-4, of(DType::f16)) / 1e-8), (Floats{10000, 10000}));
  // A tensor of halves contains halves, however it is created.
  EXPECT_EQ(values(full({1}, 1.003, of(DType::bf16)) * 3), (Floats{3}));
  EXPECT_EQ(values(scalar(1.003, of(DType::bf16)) * 3), (Floats{3}));
  Tensor filled = zeros({1}, of(DType::bf16));
  filled.fill_(1.003);
  EXPECT_EQ(values(filled * 3), (Floats{3}));
  EXPECT_EQ(values(full({1}, 1.003, of(DType::f32)).to(DType::bf16) * 3), (Floats{3}));
  EXPECT_EQ(full({1}, 70000, of(DType::f16)).item(), std::numeric_limits<double>::infinity());
}

TEST(HalfNumbers, OfFormulasAsPyTorch) {
  const Tensor x = tensor({1, 3, 0.5, -2}, of(DType::bf16));
  EXPECT_EQ(values(lerp(x, x * 3, 0.103)), (Floats{1.203125, 3.625, 0.6015625, -2.40625}));
  EXPECT_EQ(values(addcmul(x, x, x, 1.003)), (Floats{2, 12, 0.75, 2.015625}));
  EXPECT_EQ(values(addcdiv(x, x, x * 3, 1.003)),
            (Floats{1.3359375, 3.328125, 0.8359375, -1.6640625}));
  EXPECT_EQ(values(elu(x, 1.003)), (Floats{1, 3, 0.5, -0.8671875}));
  EXPECT_EQ(values(softplus(x, 1.003, 20)), (Floats{1.3125, 3.046875, 0.97265625, 0.1259765625}));
}

// An f32 scalar beside an array of halves is treated like a number, as in PyTorch.
TEST(HalfNumbers, ScalarTensorsAreNumbersToo) {
  const Tensor x = tensor({1, 3, 0.5, -2}, of(DType::bf16));
  const Tensor y = x * scalar(1.003, of(DType::f32));
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(values(y), (Floats{1, 3.015625, 0.5, -2}));
  EXPECT_EQ(values(scalar(1.003, of(DType::f32)) * x), (Floats{1, 3.015625, 0.5, -2}));
  EXPECT_EQ((scalar(1.003, of(DType::f32)) * x).dtype(), DType::bf16);
}

TEST(HalfNumbers, AreComparedAsHalves) {
  const Tensor x = tensor({1, 3, 0.5, -2}, of(DType::bf16));
  using Bools = std::vector<bool>;
  EXPECT_EQ((x < 1.003).to_vector<bool>(), (Bools{false, false, true, true}));
  EXPECT_EQ((x >= 1.003).to_vector<bool>(), (Bools{true, true, false, false}));
  EXPECT_EQ(x.eq(1.003).to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ(x.ne(1.003).to_vector<bool>(), (Bools{false, true, true, true}));
  const Tensor infinite = tensor({1, std::numeric_limits<double>::infinity()}, of(DType::f16));
  EXPECT_EQ((infinite < 70000.0).to_vector<bool>(), (Bools{true, false}));
  EXPECT_EQ(infinite.eq(70000.0).to_vector<bool>(), (Bools{false, true}));
}

// ---- Every operation that takes a number: its f32 result rounded, and its gradients.

struct Operation {
  const char* name;
  // x, another tensor, the number
  std::function<Tensor(const Tensor&, const Tensor&, double)> call;
  bool rounds = false;   // whether the number is rounded to the nearest half
  bool inexact = false;  // whether the gradient is computed from the rounded result, as in PyTorch
};

std::vector<Operation> operations() {
  using T = const Tensor&;
  return {
      {"add", [](T x, T, double n) { return x + n; }},
      {"sub", [](T x, T, double n) { return x - n; }},
      {"sub from", [](T x, T, double n) { return n - x; }},
      {"mul", [](T x, T, double n) { return x * n; }},
      {"div", [](T x, T, double n) { return x / n; }},
      {"div of", [](T x, T, double n) { return n / x; }},
      {"pow", [](T x, T, double n) { return pow(x, n); }},
      {"pow of", [](T x, T, double n) { return pow(n, x); }, false, true},
      {"fmod", [](T x, T, double n) { return fmod(x, n); }},
      {"mod", [](T x, T, double n) { return x % n; }},
      {"atan2", [](T x, T, double n) { return atan2(x, n); }},
      {"mulacc", [](T x, T y, double n) { return mulacc(x, n, y); }},
      {"lerp", [](T x, T y, double n) { return lerp(x, y, n); }},
      {"lerp to", [](T x, T y, double n) { return lerp(y, x, n); }},
      {"addcmul", [](T x, T y, double n) { return addcmul(y, x, y, n); }},
      {"addcdiv", [](T x, T y, double n) { return addcdiv(y, x, y, n); }},
      {"addcdiv by", [](T x, T y, double n) { return addcdiv(y, y, x, n); }},
      {"leaky_relu", [](T x, T, double n) { return leaky_relu(-x, n); }},
      {"elu", [](T x, T, double n) { return elu(-x, n); }},
      {"softplus", [](T x, T, double n) { return softplus(-x, n, 20); }},
      {"smooth_l1_loss",
       [](T x, T y, double n) { return smooth_l1_loss(x, y, {Reduction::none, n}); }},
      {"huber_loss", [](T x, T y, double n) { return huber_loss(x, y, {Reduction::none, n}); }},
      {"maximum", [](T x, T, double n) { return maximum(x, n); }, true},
      {"minimum", [](T x, T, double n) { return minimum(x, n); }, true},
      {"clamp", [](T x, T, double n) { return clamp(x, n, 2 * n); }, true},
      {"where", [](T x, T y, double n) { return where(x < y, x, n); }, true},
  };
}

// Numbers that neither half dtype can represent.
constexpr double kNumbers[] = {1.0031, 0.7003};

Tensor spread(double from, double to, DType dtype) {
  return linspace(from, to, 61, of(dtype)).eval();
}

class EveryOperation : public ::testing::TestWithParam<DType> {};

TEST_P(EveryOperation, RoundsItsResultOnly) {
  const DType half = GetParam();
  for (const Operation& operation : operations()) {
    bool tells = false;  // whether rounding the number first would be noticed
    for (const double n : kNumbers) {
      const double nearest = values(full({1}, n, of(half)))[0];
      const Tensor x = spread(0.3, 3, half), y = spread(2.9, 0.4, half);
      const Tensor wide = x.to(DType::f32).eval(), other = y.to(DType::f32).eval();
      const Tensor result = operation.call(x, y, n);
      EXPECT_EQ(result.dtype(), half) << operation.name;
      const auto expected = [&](double number) {
        return values(operation.call(wide, other, number).to(half));
      };
      EXPECT_EQ(values(result), expected(operation.rounds ? nearest : n)) << operation.name;
      tells |= expected(n) != expected(nearest);
    }
    EXPECT_TRUE(tells || operation.rounds) << operation.name;
  }
}

// Expects the f32 gradient of one rule, rounded.
TEST_P(EveryOperation, RoundsItsGradientOnly) {
  const DType half = GetParam();
  for (const Operation& operation : operations()) {
    for (const double n : kNumbers) {
      const Tensor x = leaf(spread(0.3, 3, half)), y = spread(2.9, 0.4, half);
      const Tensor wide = leaf(x.detach().to(DType::f32));
      const Tensor other = y.to(DType::f32).eval(), g = spread(-1, 1.7, half);
      const double number = operation.rounds ? values(full({1}, n, of(half)))[0] : n;
      const Tensor gradient = grad(operation.call(x, y, n), x, {.grad_outputs = {g}});
      const Tensor expected =
          grad(operation.call(wide, other, number), wide, {.grad_outputs = {g.to(DType::f32)}});
      EXPECT_EQ(gradient.dtype(), half) << operation.name;
      if (!operation.inexact) {
        EXPECT_EQ(values(gradient), values(expected.to(half))) << operation.name;
        continue;
      }
      const double twice = half == DType::f16 ? 0x1p-10 : 0x1p-7;  // two roundings
      const Floats actual = values(gradient), exact = values(expected);
      for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_NEAR(actual[i], exact[i], twice * std::abs(exact[i])) << operation.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Halves, EveryOperation, ::testing::Values(DType::f16, DType::bf16),
                         [](const auto& one) { return std::string(name_of(one.param)); });

// ---- Numbers of networks.

TEST(HalfNumbers, EpsilonsThatAHalfDoesNotHave) {
  // The square root of 1e-8, which is 0 in f16.
  const Tensor x = tensor({1e-4, -1e-4, 1e-4, -1e-4}, {1, 4}, of(DType::f16));
  const Floats expected = values(layer_norm(x.to(DType::f32), {4}, {}, {}, 1e-8).to(DType::f16));
  EXPECT_EQ(values(layer_norm(x, {4}, {}, {}, 1e-8)), expected);
}

}  // namespace
}  // namespace volta
