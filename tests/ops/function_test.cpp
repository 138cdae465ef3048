// User-defined operations: formulas on every device, with and without given gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }

void expect_near(const std::vector<float>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], 2e-6 * std::max(1.0, std::abs(wanted[i]))) << i;
}

const std::vector<double> kPoints = {-3, -1.5, -0.25, 0, 0.5, 1, 2.75};
Tensor points(bool grad) { return tensor({-3, -1.5, -0.25, 0, 0.5, 1, 2.75}, here(grad)); }

TEST(ScalarFunctions, ComputeTheirFormulaAndGradient) {
  const ScalarFunction softsign(
      {.name = "softsign", .formula = "x / (1 + abs(x))", .gradients = {"g / square(1 + abs(x))"}});
  const Tensor x = points(true);
  const Tensor y = softsign(x);
  std::vector<double> value, slope;
  for (const double p : kPoints) {
    value.push_back(p / (1 + std::abs(p)));
    slope.push_back(3 / std::pow(1 + std::abs(p), 2));
  }
  expect_near(y.to_vector<float>(), value);
  (y * 3).sum().backward();
  expect_near(x.grad().to_vector<float>(), slope);
}

TEST(ScalarFunctions, AreOneNodeAndFuse) {
  const ScalarFunction cubic({.formula = "x * x * x - 2 * x + 1"});
  const Tensor x = points(false);
  (cubic(x * 2) + 1).eval();  // builds and compiles the plan
  synchronize(test_device());
  const Counters before = counters();
  const Tensor y = cubic(x * 2) + 1;
  EXPECT_EQ(counters().nodes_recorded - before.nodes_recorded, 3u);
  y.eval();
  EXPECT_EQ(counters().launches - before.launches, 1u);
}

TEST(ScalarFunctions, TakeSeveralArgumentsThatBroadcast) {
  const ScalarFunction blend({.name = "blend",
                              .parameters = "a, b, t",
                              .formula = "a + (b - a) * t",
                              .gradients = {"g * (1 - t)", "g * t"}});
  const Tensor a = tensor({1, 2, 3}, {3, 1}, here(true)), b = tensor({10, 20}, {2}, here(true));
  const Tensor y = blend(a, b, 0.25);
  EXPECT_EQ(y.shape(), Shape({3, 2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3.25, 5.75, 4, 6.5, 4.75, 7.25}));
  y.sum().backward();
  EXPECT_EQ(a.grad().to_vector<float>(), std::vector<float>(3, 1.5f));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(2, 0.75f));
}

TEST(ScalarFunctions, FindTheirOwnGradients) {
  const ScalarFunction swish(
      {.name = "swish", .parameters = "x, b", .formula = "x * sigmoid(b * x)"});
  const ScalarFunction twice({.name = "twice", .formula = "swish(swish(x, 1), 2)"});
  const Tensor x = points(true);
  twice(x).sum().backward();
  const auto f = [](double v) {
    const double inner = v / (1 + std::exp(-v));
    return inner / (1 + std::exp(-2 * inner));
  };
  std::vector<double> slope;
  for (const double p : kPoints) slope.push_back((f(p + 1e-5) - f(p - 1e-5)) / 2e-5);
  const auto got = x.grad().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], slope[i], 1e-5) << i;
}

TEST(ScalarFunctions, GiveTruthAndTakeIntegers) {
  const ScalarFunction inside({.parameters = "x, low, high", .formula = "x >= low && !(x > high)"});
  const Tensor x = points(false);
  EXPECT_EQ(inside(x, -1, 1).dtype(), DType::boolean);
  EXPECT_EQ(inside(x, -1, 1).to_vector<bool>(),
            (std::vector<bool>{false, false, true, true, true, true, false}));
  const ScalarFunction odd({.formula = "2 * x + 1"}), half({.formula = "x / 2"});
  const Tensor n = arange(4, {.device = test_device()});
  EXPECT_EQ(odd(n).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 3, 5, 7}));
  EXPECT_EQ(half(n).to_vector<float>(), (std::vector<float>{0, 0.5, 1, 1.5}));
}

TEST(ScalarFunctions, NamePartsThatAreUsedSeveralTimes) {
  const ScalarFunction named({.formula = "a = abs(x); above = a == 1 || a > 1; above ? a * a : a"});
  const ScalarFunction caller({.name = "caller", .formula = "a = x / 2; a + square(a)"});
  const Tensor x = points(false);
  const std::vector<float> at = x.to_vector<float>(), got = named(x).to_vector<float>(),
                           called = caller(x).to_vector<float>();
  for (std::size_t i = 0; i < at.size(); ++i) {
    const float a = std::fabs(at[i]), half = at[i] / 2;
    EXPECT_FLOAT_EQ(got[i], a >= 1 ? a * a : a);
    EXPECT_FLOAT_EQ(called[i], half + half * half);
  }
  EXPECT_TRUE(check_gradients([&](const auto& in) { return caller(in[0]); }, {x}).passed);
}

TEST(ScalarFunctions, SayWhereAFormulaGoesWrong) {
  const auto wrong = [](const char* formula, const char* message) {
    errors::expect<ArgumentError>([&] { ScalarFunction({.name = "f", .formula = formula}); },
                                  std::string("f: ") + message);
  };
  wrong("", "the formula ends too early at character 1 of \"\"");
  wrong("x +", "the formula ends too early at character 4 of \"x +\"");
  wrong("x + z", "'z' is not a parameter at character 5 of \"x + z\"");
  wrong("x x", "an operator is missing at character 3 of \"x x\"");
  wrong("(x + 1", "')' is missing at character 7 of \"(x + 1\"");
  wrong("x > 0 ? x", "':' is missing at character 10 of \"x > 0 ? x\"");
  wrong("x ? 1 : 2", "'?' takes a condition, not a number, at character 3 of \"x ? 1 : 2\"");
  wrong("(x > 0) + 1", "'+' takes a number, not a condition, at character 9 of \"(x > 0) + 1\"");
  wrong("1 + -(x > 0)", "'-' takes a number, not a condition, at character 5 of \"1 + -(x > 0)\"");
  wrong("x && x > 0", "'&&' takes a condition, not a number, at character 3 of \"x && x > 0\"");
  wrong("x + exp(x > 0)",
        "'exp' takes a number, not a condition, at character 5 of \"x + exp(x > 0)\"");
  wrong("x + relu(x > 0)",
        "'relu' takes numbers, not conditions, at character 5 of \"x + relu(x > 0)\"");
  wrong("blub(x)", "there is no operation 'blub' at character 1 of \"blub(x)\"");
  wrong("exp(x, 2)", "'exp' takes 1 arguments, not 2, at character 1 of \"exp(x, 2)\"");
  wrong("x # 2", "an operator is missing at character 3 of \"x # 2\"");
  wrong("2x", "a number runs into a name at character 2 of \"2x\"");
  wrong("* x", "unexpected '*' at character 1 of \"* x\"");
  wrong("a = x + 1", "';' is missing at character 10 of \"a = x + 1\"");
  wrong("a = x;", "the formula ends too early at character 7 of \"a = x;\"");
  wrong("x = 2; x", "'x' is defined already at character 1 of \"x = 2; x\"");
  wrong("a = x; a = 2; a", "'a' is defined already at character 8 of \"a = x; a = 2; a\"");
  wrong("a = x > 0; a + 1",
        "'+' takes a number, not a condition, at character 14 of \"a = x > 0; a + 1\"");
  errors::expect<ArgumentError>(
      [] { ScalarFunction({.name = "f", .formula = "x", .gradients = {"g * q"}}); },
      "the gradient of f: 'q' is not a parameter at character 5 of \"g * q\"");
  const std::string deep = std::string(200, '(').append("x").append(200, ')');
  EXPECT_THROW(ScalarFunction({.formula = deep}), ArgumentError);
}

TEST(ScalarFunctions, SayWhatIsWrongWithParametersAndArguments) {
  const auto refused = [](const char* parameters, const char* message) {
    errors::expect<ArgumentError>(
        [&] { ScalarFunction({.name = "f", .parameters = parameters, .formula = "1"}); }, message);
  };
  refused("", "f: \"\" is not a name (parameters \"\")");
  refused("x, 2", "f: \"2\" is not a name (parameters \"x, 2\")");
  refused("x, x", "f: \"x\" is there twice (parameters \"x, x\")");
  refused("g", "f: \"g\" is the result's or its gradient's name (parameters \"g\")");
  refused("pi", "f: \"pi\" is a number's name (parameters \"pi\")");
  errors::expect<ArgumentError>(
      [] { ScalarFunction({.name = "f", .formula = "x", .gradients = {"g", "g"}}); },
      "f: 2 gradients for 1 parameters");
  const ScalarFunction f({.name = "f", .parameters = "a, b", .formula = "a + b"});
  errors::expect<ArgumentError>([&] { f(ones({2}, here())); }, "f: takes 2 arguments, not 1");
  errors::expect<ArgumentError>([&] { f(1, 2); }, "f: no argument is a tensor");
  errors::expect<ArgumentError>([&] { f(Tensor(), 2); }, "f: an argument is not a tensor");
  errors::expect<ShapeError>([&] { f(ones({2}, here()), ones({3}, here())); },
                             "f: shapes [2] and [3] do not broadcast");
}

}  // namespace
}  // namespace volta
