// check_gradients: its defaults, the errors that it finds, and its messages.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }

// x², with a gradient that is wrong by a factor, or by an offset at one element.
Tensor wrong_square(const Tensor& x, double factor, double at_fourth = 0) {
  const Function square(
      {.name = "square",
       .forward =
           [](FunctionContext& context, const std::vector<Tensor>& in) {
             context.save({in[0]});
             return std::vector<Tensor>{in[0] * in[0]};
           },
       .backward =
           [=](FunctionContext& context, const std::vector<Tensor>& g) {
             const Tensor& x = context.saved()[0];
             const Tensor hot =
                 arange(x.numel(), {.device = x.device()}).reshape(x.shape()).eq(4).to(x.dtype());
             return std::vector<Tensor>{g[0] * x * (2 * factor) + hot * at_fourth};
           }});
  return square(x);
}

TEST(CheckGradients, PassesWhatIsRight) {
  const Tensor x = tensor({0.5, -1, 2, 1.5, -0.25, 3}, {2, 3}, here());
  const CheckReport report = check_gradients([](const Tensor& in) { return in.exp() * in; }, x);
  EXPECT_TRUE(report.passed) << report.message;
  EXPECT_NE(report.message.find("(tolerance 0.001)"), std::string::npos) << report.message;
}

TEST(CheckGradients, NamesTheWorstElement) {
  const Tensor x = tensor({1, 1, 1, 1, 1, 1}, {2, 3}, here());
  const CheckReport report =
      check_gradients([](const Tensor& in) { return wrong_square(in, 1, 0.25); }, x);
  EXPECT_FALSE(report.passed);
  // Element 4 is in the second row and column. Its gradient, twice its weight, is 1/4 too large.
  EXPECT_EQ(report.message.substr(0, 34), "input 0 element [1, 1]: gradient 2") << report.message;
  EXPECT_NE(report.message.find(", differences "), std::string::npos) << report.message;
  EXPECT_NE(report.message.find(", relative error "), std::string::npos) << report.message;
  EXPECT_GT(report.worst, 0.08);
  EXPECT_LT(report.worst, 0.3);
  // The wrong gradient is in the second of two inputs.
  const CheckReport second = check_gradients(
      [](const std::vector<Tensor>& in) { return in[0] + wrong_square(in[1], 1, 0.25); },
      {x, x.clone()});
  EXPECT_EQ(second.message.substr(0, 22), "input 1 element [1, 1]") << second.message;
}

TEST(CheckGradients, DefaultsTellAPercentApart) {
  const Tensor x = tensor({1, 2, 3}, here());
  const auto scaled = [](double factor) {
    return [factor](const Tensor& in) { return wrong_square(in, factor); };
  };
  EXPECT_TRUE(check_gradients(scaled(1), x).passed);
  EXPECT_FALSE(check_gradients(scaled(1.01), x).passed);
  EXPECT_FALSE(check_gradients(scaled(1.002), x).passed);
  EXPECT_TRUE(check_gradients(scaled(1.01), x, {.tol = 0.1}).passed);
  if (!test_device().supports(DType::f64)) return;
  const Tensor wide = tensor({1, 2, 3}, here(DType::f64));
  EXPECT_TRUE(check_gradients(scaled(1), wide).passed);
  EXPECT_FALSE(check_gradients(scaled(1 + 1e-6), wide).passed);
  EXPECT_NE(check_gradients(scaled(1), wide).message.find("(tolerance 1e-07)"), std::string::npos);
  // The less precise of two inputs determines the defaults.
  const CheckReport mixed =
      check_gradients([](const std::vector<Tensor>& in) { return in[0] * in[1]; }, {wide, x});
  EXPECT_TRUE(mixed.passed) << mixed.message;
  EXPECT_NE(mixed.message.find("(tolerance 0.001)"), std::string::npos) << mixed.message;
}

TEST(CheckGradients, HalvesAreCheckedCoarsely) {
  if (!thorough()) GTEST_SKIP() << "kernels of halves are others";
  const Tensor x = tensor({1, 2, 3}, here(DType::f16));
  EXPECT_TRUE(check_gradients([](const Tensor& in) { return wrong_square(in, 1); }, x).passed);
  EXPECT_FALSE(check_gradients([](const Tensor& in) { return wrong_square(in, 1.25); }, x).passed);
}

TEST(CheckGradients, NanIsTheWorst) {
  const Tensor x = tensor({4, 0, 9}, here()), y = tensor({1, 2, 3}, here());
  const CheckReport report =
      check_gradients([](const std::vector<Tensor>& in) { return in[0].sqrt() + in[1]; }, {x, y});
  EXPECT_FALSE(report.passed);
  EXPECT_TRUE(std::isnan(report.worst));
  EXPECT_EQ(report.message.substr(0, 19), "input 0 element [1]") << report.message;
}

TEST(CheckGradients, AnInputThatDoesNotMatterHasNone) {
  const Tensor x = tensor({1, 2}, here());
  EXPECT_TRUE(
      check_gradients([](const std::vector<Tensor>& in) { return in[0] * 2; }, {x, x.clone()})
          .passed);
  EXPECT_TRUE(check_gradients([](const Tensor& in) { return in * 3; }, scalar(2.0, here())).passed);
  EXPECT_TRUE(
      check_gradients([](const Tensor& in) { return in * 3; }, zeros({0, 2}, here())).passed);
  // The only input has no gradient either.
  EXPECT_TRUE(check_gradients([&](const Tensor&) { return x * 2; }, x).passed);
  EXPECT_FALSE(check_gradients([](const Tensor& in) { return in.detach() * 2; }, x).passed);
}

// The norm of a gradient, differentiated again, as in the penalty of a Wasserstein critic.
TEST(CheckGradients, AFunctionThatAsksForGradients) {
  const Tensor x = tensor({0.5, -1, 2, 1.5, -0.25, 3}, {2, 3}, here());
  const Tensor w = tensor({1, -2, 0.5}, here());
  const auto penalty = [&](const Tensor& in) {
    const Tensor score = ((in * w).sum(1) + in.square().sum(1)).tanh().sum();
    const Tensor slope = grad(score, in, {.create_graph = true});
    return slope.square().sum(1);
  };
  const CheckReport report = check_gradients(penalty, x * 0.3);
  EXPECT_TRUE(report.passed) << report.message;
  // Gradients that the function itself adds to its inputs do not count.
  const auto counting = [](const Tensor& in) {
    in.sum().backward();
    return in.square();
  };
  const CheckReport beside = check_gradients(counting, x);
  EXPECT_TRUE(beside.passed) << beside.message;
  // A gradient that is wrong only in the second order is found.
  const CheckReport wrong = check_gradients(
      [&](const Tensor& in) {
        return grad((in * in * in).sum(), in, {.create_graph = true}).detach() + in * 0;
      },
      x);
  EXPECT_FALSE(wrong.passed) << wrong.message;
  // It is found although the caller records no history.
  const NoGrad no_grad;
  EXPECT_TRUE(check_gradients([](const Tensor& in) { return in.square(); }, x).passed);
}

TEST(CheckGradientErrors, WhatTheFunctionGives) {
  const Tensor x = tensor({1, 2}, here());
  errors::expect<ArgumentError>([&] { check_gradients([](const Tensor&) { return Tensor(); }, x); },
                                "check_gradients: the result of the function is not a tensor");
  errors::expect<DTypeError>([&] { check_gradients([](const Tensor& in) { return in > 0; }, x); },
                             "check_gradients: expected a floating-point tensor, got bool");
}

}  // namespace
}  // namespace volta
