// Gradients at bounds: clamp, its layers, and layers whose slope changes at a point, compared with
// PyTorch 2.15. In halves a rule must decide by x itself on which side of the bound it lies.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/nn/activation.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

using Floats = std::vector<float>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorOptions of(DType dtype, bool grad = true) {
  return {.dtype = dtype, .device = test_device(), .requires_grad = grad};
}
Floats values(const Tensor& x) { return x.to(DType::f32).to_vector<float>(); }
Tensor leaf(Tensor x) {
  x.eval();
  return x.set_requires_grad();
}
Floats slope(const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
  return values(grad(f(x).sum(), x));
}

TEST(BoundGradients, ThatAreNumbersGiveNoGradientAtThem) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = tensor({-1, 0, 1, 2, 3, kNan}, of(dtype));
    EXPECT_EQ(slope(x, [](const Tensor& t) { return clamp(t, 0, 2); }), (Floats{0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(slope(x, [](const Tensor& t) { return clamp(t, 0, {}); }),
              (Floats{0, 0, 1, 1, 1, 0}));
    EXPECT_EQ(slope(x, [](const Tensor& t) { return clamp(t, {}, 2); }),
              (Floats{1, 1, 1, 0, 0, 0}));
    EXPECT_EQ(slope(x, [](const Tensor& t) { return clamp(t, 2, 0); }), (Floats{0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(slope(x, [](const Tensor& t) { return clamp(t, 1, 1); }), (Floats{0, 0, 0, 0, 0, 0}));
    nn::Hardtanh hardtanh(0, 2);
    EXPECT_EQ(slope(x, [&](const Tensor& t) { return hardtanh(t); }), (Floats{0, 0, 1, 0, 0, 1}));
    nn::ReLU6 relu6;
    EXPECT_EQ(slope(x, [&](const Tensor& t) { return relu6(t * 2); }), (Floats{0, 0, 2, 2, 0, 2}));
  }
  // The bound is rounded to the nearest half.
  const Tensor one = tensor({1}, of(DType::bf16));
  EXPECT_EQ(slope(one, [](const Tensor& t) { return clamp(t, {}, 1.003); }), (Floats{0}));
}

// low, high; then, for x of -1, 0, 1 and NaN, the gradients of x, low and high.
struct Shared {
  double low, high;
  Floats x, lower, upper;
};

TEST(BoundGradients, ThatAreTensorsShareTheGradientAtThem) {
  const Shared cases[] = {
      {-1, -1, {1, 0, 0, 1}, {0, 0, 0, 0}, {0, 1, 1, 0}},
      {-1, 0, {0.5, 0.5, 0, 1}, {0.5, 0, 0, 0}, {0, 0.5, 1, 0}},
      {-1, 1, {0.5, 1, 0.5, 1}, {0.5, 0, 0, 0}, {0, 0, 0.5, 0}},
      {-1, kNan, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {0, -1, {0, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}},
      {0, 0, {0, 1, 0, 1}, {1, 0, 0, 0}, {0, 0, 1, 0}},
      {0, 1, {0, 0.5, 0.5, 1}, {1, 0.5, 0, 0}, {0, 0, 0.5, 0}},
      {0, kNan, {0, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {1, -1, {0, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}},
      {1, 1, {0, 0, 1, 1}, {1, 1, 0, 0}, {0, 0, 0, 0}},
      {kNan, 0, {1, 1, 0, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {kNan, kNan, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}},
  };
  for (const Shared& one : cases) {
    const Tensor x = tensor({-1, 0, 1, kNan}, of(DType::f32));
    const Tensor low = full({4}, one.low, of(DType::f32)),
                 high = full({4}, one.high, of(DType::f32));
    const std::vector<Tensor> gradients = grad({clamp(x, low, high).sum()}, {x, low, high});
    EXPECT_EQ(values(gradients[0]), one.x) << one.low << " " << one.high;
    EXPECT_EQ(values(gradients[1]), one.lower) << one.low << " " << one.high;
    EXPECT_EQ(values(gradients[2]), one.upper) << one.low << " " << one.high;
  }
}

TEST(BoundGradients, OneTensorIsAMaximumOrMinimum) {
  const Tensor x = tensor({-1, 0, 1, 2, kNan}, of(DType::f32)), zero = zeros({5}, of(DType::f32));
  std::vector<Tensor> gradients = grad({clamp(x, zero, {}).sum()}, {x, zero});
  EXPECT_EQ(values(gradients[0]), (Floats{0, 0.5, 1, 1, 1}));
  EXPECT_EQ(values(gradients[1]), (Floats{1, 0.5, 0, 0, 1}));
  gradients = grad({clamp(x, {}, zero).sum()}, {x, zero});
  EXPECT_EQ(values(gradients[0]), (Floats{1, 0.5, 0, 0, 1}));
  EXPECT_EQ(values(gradients[1]), (Floats{0, 0.5, 1, 1, 1}));
  gradients = grad({maximum(x, zero).sum()}, {x, zero});
  EXPECT_EQ(values(gradients[0]), (Floats{0, 0.5, 1, 1, 1}));
  gradients = grad({minimum(x, zero).sum()}, {x, zero});
  EXPECT_EQ(values(gradients[0]), (Floats{1, 0.5, 0, 0, 1}));
}

// For x = 2.984, x + 3 is rounded to 6 in bf16, but x is still below the bound.
TEST(BoundGradients, OfHalvesAreAskedOfXItself) {
  nn::Hardsigmoid hardsigmoid;
  const Tensor x = tensor({2.984375, -2.984375, 3, -3, 0, kNan}, of(DType::bf16));
  const float sixth = 0.1669921875f;  // in bf16
  EXPECT_EQ(slope(x, [&](const Tensor& t) { return hardsigmoid(t); }),
            (Floats{sixth, sixth, 0, 0, sixth, 0}));
  // Every half around a bound, against the rule in f32.
  for (const DType half : {DType::f16, DType::bf16}) {
    const Tensor near = (arange(-64, 65, of(DType::f32, false)) / 4096 + 1).to(half).eval();
    nn::Hardswish hardswish;
    nn::Softplus softplus(1, 3);
    nn::Hardtanh hardtanh(-3, 3);
    nn::ReLU6 relu6;
    nn::SELU selu;
    const std::vector<std::pair<double, std::function<Tensor(const Tensor&)>>> layers = {
        {3, [&](const Tensor& t) { return hardsigmoid(t); }},
        {-3, [&](const Tensor& t) { return hardsigmoid(t); }},
        {3, [&](const Tensor& t) { return hardswish(t); }},
        {-3, [&](const Tensor& t) { return hardswish(t); }},
        {3, [&](const Tensor& t) { return softplus(t); }},
        {3, [&](const Tensor& t) { return hardtanh(t); }},
        {6, [&](const Tensor& t) { return relu6(t); }},
        {-1, [&](const Tensor& t) { return selu(t); }},
        {1,
         [&](const Tensor& t) { return smooth_l1_loss(t, t.detach() * 0, {Reduction::none, 1}); }},
        {1, [&](const Tensor& t) { return huber_loss(t, t.detach() * 0, {Reduction::none, 1}); }}};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto& [at, layer] = layers[i];
      const Tensor t = leaf(near * at);
      const Tensor wide = leaf(t.detach().to(DType::f32));
      EXPECT_EQ(values(layer(t)), values(layer(wide).to(half))) << i;
      EXPECT_EQ(slope(t, layer), values(grad(layer(wide).sum(), wide).to(half))) << i;
    }
  }
}

TEST(BoundGradients, OfIntegersKeepThem) {
  using Integers = std::vector<std::int64_t>;
  for (const DType dtype : {DType::i32, DType::i64}) {
    const Tensor x = arange(-3, 9, of(dtype, false));
    const Tensor y = nn::ReLU6()(x);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to_vector<std::int64_t>(), (Integers{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 6, 6}));
    EXPECT_EQ(nn::Hardtanh(-1.5, 1.5)(x).to_vector<std::int64_t>(),
              (Integers{-1, -1, -1, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(nn::Hardtanh(-2, 2)(x).dtype(), dtype);
    EXPECT_EQ(clamp(x, 1, 4).dtype(), dtype);
    EXPECT_EQ(clamp(x, 0.5, 4.5).dtype(), DType::f32);
  }
  const Tensor u = tensor({253, 0, 1, 5}, of(DType::u8, false));
  EXPECT_EQ(nn::Hardtanh()(u).to_vector<std::int64_t>(), (Integers{1, 0, 1, 1}));
  EXPECT_EQ(nn::ReLU6()(u).to_vector<std::int64_t>(), (Integers{6, 0, 1, 5}));
  const Tensor flag = tensor({1}, of(DType::boolean, false));
  expect<DTypeError>([&] { nn::ReLU6().forward(flag); }, "ReLU6: expected numbers, got bool");
}

}  // namespace
}  // namespace volta::errors
