// Clipping of gradients: pending norms, few kernels, handles, errors. Values are compared with
// PyTorch's in amp_golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<Tensor> with_gradients(int count, double value, DType dtype = DType::f32,
                                   const Shape& shape = {32, 32}) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < count; ++i) {
    const TensorOptions options{.dtype = dtype, .device = test_device(), .requires_grad = true};
    parameters.push_back(zeros(shape, options));
    parameters.back().set_grad(
        full(shape, value, {.dtype = dtype, .device = test_device()}).clone().eval());
  }
  return parameters;
}

TEST(ClipGrad, NothingIsEvaluated) {
  const std::vector<Tensor> parameters = with_gradients(3, 0.5);
  const Tensor handle = parameters[0].grad();
  const std::uint64_t before = counters().submits;
  const Tensor norm = nn::clip_grad_norm(parameters, 1);
  nn::clip_grad_value(parameters, 0.005);
  EXPECT_EQ(counters().submits, before);
  EXPECT_TRUE(norm.is_pending());
  EXPECT_FALSE(norm.requires_grad());
  const double expected = std::sqrt(3 * 1024 * 0.25);
  EXPECT_NEAR(norm.item(), expected, 1e-5 * expected);
  EXPECT_NEAR(handle.max().item(), 0.005, 1e-8) << "in place: every handle sees it";
  EXPECT_NEAR(parameters[2].grad().min().item(), 0.005, 1e-8);
}

TEST(ClipGrad, ParametersWithoutGradientsAndNone) {
  std::vector<Tensor> parameters = with_gradients(2, 2);
  parameters.push_back(zeros({3}, {.device = test_device(), .requires_grad = true}));
  EXPECT_NEAR(nn::clip_grad_norm(parameters, kInf, {.norm_type = kInf}).item(), 2, 0);
  EXPECT_FALSE(parameters[2].grad().defined());
  EXPECT_EQ(nn::clip_grad_norm({parameters[2]}, 1).item(), 0);
  EXPECT_EQ(nn::clip_grad_norm({}, 1).item(), 0);
}

TEST(ClipGrad, DtypesAndEmptyGradients) {
  std::vector<Tensor> parameters = with_gradients(1, 3, DType::bf16, {2, 2});
  for (const Tensor& more : with_gradients(1, 4, DType::f32, {0, 5})) parameters.push_back(more);
  EXPECT_EQ(nn::clip_grad_norm(parameters, 3).dtype(), DType::f32);
  EXPECT_EQ(parameters[0].grad().dtype(), DType::bf16);
  EXPECT_NEAR(parameters[0].grad().max().item(), 1.5, 1e-2);
  if (!test_device().is_cpu()) return;
  for (const Tensor& more : with_gradients(1, 4, DType::f64, {4})) parameters.push_back(more);
  const Tensor norm = nn::clip_grad_norm(parameters, 100);
  EXPECT_EQ(norm.dtype(), DType::f64);
  EXPECT_EQ(parameters[2].grad().to_vector<double>(), std::vector<double>(4, 4.0));
}

// The number of kernels does not depend on the number of parameters.
TEST(ClipGradCounts, FewKernels) {
  const auto launches = [](int count) {
    const std::vector<Tensor> parameters = with_gradients(count, 0.5);
    for (const Tensor& p : parameters) {
      p.set_grad(from_vector(std::vector<float>(1024, 0.5f), p.shape(), {.device = test_device()}));
    }
    const Tensor norm = nn::clip_grad_norm(parameters, 1);
    const std::uint64_t before = counters().launches;
    norm.eval();
    synchronize(test_device());
    return counters().launches - before;
  };
  const std::uint64_t three = launches(3), fifty = launches(50), many = launches(200);
  std::printf("kernels that clip 3, 50 and 200 gradients: %d, %d, %d\n", static_cast<int>(three),
              static_cast<int>(fifty), static_cast<int>(many));
  EXPECT_LE(three, 4u);
  EXPECT_LE(fifty, 5u);
  EXPECT_LE(many, 6u);
}

TEST(ClipGradErrors, Arguments) {
  const std::vector<Tensor> parameters = with_gradients(1, 1);
  const auto refused = [](auto act, const char* message) {
    errors::expect<ArgumentError>(act, message);
  };
  refused([&] { nn::clip_grad_norm(parameters, -1); },
          "clip_grad_norm: max_norm must be zero or more, got -1");
  refused([&] { nn::clip_grad_norm(parameters, 1, {.norm_type = 0}); },
          "clip_grad_norm: norm_type must be positive, got 0");
  refused([&] { nn::clip_grad_norm({Tensor()}, 1); }, "clip_grad_norm: parameter 0 is undefined");
  refused([&] { nn::clip_grad_value(parameters, -2); },
          "clip_grad_value: clip_value must be zero or more, got -2");
  refused([&] { nn::clip_grad_value({parameters[0], Tensor()}, 1); },
          "clip_grad_value: parameter 1 is undefined");
  refused([&] { total_norm(parameters, -1); }, "total_norm: p = -1 is not positive");
  refused([&] { total_norm({}); }, "total_norm: there are no tensors");
  refused([&] { any_nonfinite({}); }, "any_nonfinite: there are no tensors");
  const Tensor integers = ones({2}, {.dtype = DType::i64});
  errors::expect<DTypeError>([&] { any_nonfinite({&integers, 1}); },
                             "any_nonfinite: expected a floating-point tensor, got i64");
}

TEST(ClipGradErrors, NormsThatAreNotFinite) {
  const std::vector<Tensor> parameters = with_gradients(2, kInf);
  errors::expect<ArgumentError>(
      [&] { nn::clip_grad_norm(parameters, 1, {.error_if_nonfinite = true}); },
      "clip_grad_norm: the norm of the gradients is inf; they cannot be clipped");
  EXPECT_EQ(parameters[0].grad().max().item(), kInf) << "nothing was clipped";
  EXPECT_TRUE(std::isnan(nn::clip_grad_norm(parameters, 1).item() * 0));
}

}  // namespace
}  // namespace volta
