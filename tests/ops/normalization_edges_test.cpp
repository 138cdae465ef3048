// Normalisation of unusual batches: no elements at all, or numbers whose squares are infinite.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"
#include "volta/volta.h"

namespace volta {
namespace {

const BatchNormOptions kTraining{.training = true};

TensorOptions here() { return {.dtype = DType::f32, .device = test_device()}; }
Tensor of(const Shape& shape, double value) { return full(shape, value, here()).clone(); }
Tensor leaf(const Shape& shape, double value) { return of(shape, value).set_requires_grad(); }

class OnOneDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!thorough()) GTEST_SKIP() << "the formulas do not depend on devices";
  }
};
class NormalizationOfNothing : public OnOneDevice {};
class NormalizationOfHugeNumbers : public OnOneDevice {};

// ---- No elements: an empty result with a history, and gradients of 0 for weight and bias.

template <class Normalize>
void expect_nothing(const Shape& shape, std::int64_t parameters, Normalize normalize) {
  SCOPED_TRACE(to_string(shape));
  const Tensor x = leaf(shape, 1), weight = leaf({parameters}, 2), bias = leaf({parameters}, 3);
  const Tensor y = normalize(x, weight, bias);
  EXPECT_EQ(y.shape(), shape);
  ASSERT_TRUE(y.requires_grad());
  y.sum().backward();
  ASSERT_TRUE(x.grad().defined());
  EXPECT_EQ(x.grad().shape(), shape);
  const std::vector<float> none(static_cast<std::size_t>(parameters), 0);
  ASSERT_TRUE(weight.grad().defined());
  EXPECT_EQ(weight.grad().to_vector<float>(), none);
  ASSERT_TRUE(bias.grad().defined());
  EXPECT_EQ(bias.grad().to_vector<float>(), none);
}

TEST_F(NormalizationOfNothing, GroupNorm) {
  for (const Shape& shape : {Shape{0, 4, 2, 3}, Shape{2, 4, 0, 3}, Shape{0, 4}}) {
    expect_nothing(shape, 4, [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return group_norm(x, 2, weight, bias);
    });
  }
}

TEST_F(NormalizationOfNothing, InstanceNorm) {
  for (const Shape& shape : {Shape{0, 4, 2, 3}, Shape{2, 4, 0, 3}}) {
    expect_nothing(shape, 4, [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return instance_norm(x, weight, bias);
    });
  }
}

TEST_F(NormalizationOfNothing, LayerNorm) {
  for (const Shape& shape : {Shape{0, 4}, Shape{2, 0, 4}, Shape{2, 0}}) {
    const std::int64_t last = shape[shape.rank() - 1];
    expect_nothing(shape, last, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return layer_norm(x, {last}, weight, bias);
    });
  }
}

TEST_F(NormalizationOfNothing, BatchNormLeavesItsRunningStatistics) {
  const std::vector<float> mean(3, 0.5F), variance(3, 4.0F);
  for (const Shape& shape : {Shape{0, 3}, Shape{0, 3, 4, 4}, Shape{2, 3, 0, 4}}) {
    const Tensor running_mean = of({3}, 0.5), running_var = of({3}, 4);
    expect_nothing(shape, 3, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return batch_norm(x, running_mean, running_var, weight, bias, kTraining);
    });
    EXPECT_EQ(running_mean.to_vector<float>(), mean);
    EXPECT_EQ(running_var.to_vector<float>(), variance);
    expect_nothing(shape, 3, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return batch_norm(x, {}, {}, weight, bias);
    });
    expect_nothing(shape, 3, [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return batch_norm(x, running_mean, running_var, weight, bias);
    });
  }
}

// ---- Infinite squares: the deviation is infinite, and dividing by it gives 0.

void expect_zeros(const Tensor& t, const char* which) {
  for (const float value : t.to_vector<float>()) ASSERT_EQ(value, 0) << which;
}

Tensor huge(const Shape& shape, double scale) {
  return conformance::upload(conformance::numbers(shape, -scale, 2 * scale), true);
}

template <class Normalize>
void expect_overflow(const Tensor& x, std::int64_t parameters, Normalize normalize) {
  SCOPED_TRACE(to_string(x.shape()));
  const Tensor weight = leaf({parameters}, 2), bias = leaf({parameters}, 0);
  const Tensor y = normalize(x, weight, bias);
  const Tensor g = conformance::upload(conformance::numbers(x.shape(), -1, 2));
  const std::vector<Tensor> slopes = grad({y}, {x, weight}, {.grad_outputs = {g}});
  expect_zeros(y, "value");
  expect_zeros(slopes[0], "gradient of the input");
  expect_zeros(slopes[1], "gradient of the weight");
}

TEST_F(NormalizationOfHugeNumbers, BatchNorm) {
  const auto expect_values = [](const Shape& shape, double scale) {
    const Tensor mean = of({shape[1]}, 0), variance = of({shape[1]}, 1);
    const Tensor x = huge(shape, scale);
    expect_overflow(x, shape[1], [&](const Tensor& in, const Tensor& weight, const Tensor& bias) {
      return batch_norm(in, mean, variance, weight, bias, kTraining);
    });
    for (const float value : mean.to_vector<float>()) {
      EXPECT_NEAR(static_cast<double>(value) / scale, 0.05, 0.01);
    }
    for (const float value : variance.to_vector<float>()) {
      EXPECT_EQ(value, std::numeric_limits<float>::infinity());
    }
  };
  expect_values({64, 2}, 1e30);
  expect_values({16, 2, 32, 32}, 1e30);  // in chunks
  expect_values({10007, 2}, 1e22);       // the last one shorter
}

// Sums of squares are infinite long before the variance is.
TEST_F(NormalizationOfHugeNumbers, BatchNormOfAFiniteVariance) {
  for (const Shape& shape : {Shape{8192, 2}, Shape{16, 2, 32, 32}, Shape{10007, 2}}) {
    for (const double scale : {1e-15, 1.0, 3e15, 1e17, 1e18}) {
      const Tensor mean = of({2}, 0), variance = of({2}, 1);
      manual_seed(3);
      const Tensor x = randn(shape, {.device = Device::cpu()}) * scale;
      const Tensor y = batch_norm(x, mean, variance, {}, {}, {.training = true, .eps = 0});
      EXPECT_NEAR(y.std().item<double>(), 1, 1e-3) << scale;
      for (const float value : variance.to_vector<float>())
        EXPECT_NEAR(value, 0.9 + 0.1 * scale * scale, 0.005 * (1 + scale * scale)) << scale;
    }
  }
}

TEST_F(NormalizationOfHugeNumbers, GroupAndLayerNorm) {
  expect_overflow(huge({3, 4, 5}, 1e30), 4,
                  [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
                    return group_norm(x, 2, weight, bias);
                  });
  expect_overflow(huge({3, 8}, 1e30), 8,
                  [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
                    return layer_norm(x, {8}, weight, bias);
                  });
}

// An infinite element is not a large number: nothing can be said about its channel.
TEST_F(NormalizationOfHugeNumbers, InfinityIsNone) {
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {8, 1}, here());
  const Tensor mean = of({1}, 0), variance = of({1}, 1);
  const Tensor spoilt =
      where(x.eq(5), full({8, 1}, std::numeric_limits<double>::infinity(), here()), x);
  const Tensor y = batch_norm(spoilt, mean, variance, {}, {}, kTraining);
  for (const float value : y.to_vector<float>()) EXPECT_TRUE(value != value);
  EXPECT_TRUE(variance.item<float>() != variance.item<float>());
}

}  // namespace
}  // namespace volta
