// grad(), higher orders, hooks, retained gradients, user functions, recomputation, anomalies.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }

void expect_near(const Tensor& got, const std::vector<double>& wanted, double tolerance = 1e-5) {
  ASSERT_TRUE(got.defined());
  const std::vector<float> values = got.to_vector<float>();
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i]))) << i;
}

// ---- grad()

TEST(Grad, GivesGradientsOfLeavesAndResultsAndLeavesGradAlone) {
  const Tensor a = tensor({1, 2, 3}, here(true)), b = tensor({4, 5, 6}, here(true));
  const Tensor m = a * b, loss = (m * m).sum();
  const std::vector<Tensor> g = grad({loss}, {a, m, b});
  expect_near(g[0], {2 * 4 * 4.0, 2 * 10 * 5.0, 2 * 18 * 6.0});
  expect_near(g[1], {8, 20, 36});
  expect_near(g[2], {2 * 4 * 1.0, 2 * 10 * 2.0, 2 * 18 * 3.0});
  EXPECT_FALSE(a.grad().defined());
  EXPECT_FALSE(b.grad().defined());
}

TEST(Grad, TakesSeveralOutputsAndTheirGradients) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor y = x * 3, z = x.square();
  const auto g =
      grad({y, z}, {x}, {.grad_outputs = {tensor({1, 10}, here()), tensor({2, 1}, here())}});
  expect_near(g[0], {3 + 2 * 2 * 1.0, 30 + 2 * 2.0});
}

TEST(Grad, ComputesOnlyWhatLeadsToTheInputs) {
  const Tensor x = tensor({1, 2}, here(true)), w = tensor({3, 4}, here(true));
  int seen = 0;
  const Tensor other = w.exp();
  other.register_hook([&](const Tensor&) { ++seen; });
  const Tensor loss = (x * other).sum();
  const Tensor g = grad(loss, x);
  expect_near(g, {std::exp(3.0), std::exp(4.0)});
  EXPECT_EQ(seen, 0);
}

TEST(Grad, SaysWhatIsWrong) {
  const Tensor x = tensor({1, 2}, here(true)), other = tensor({1, 2}, here(true));
  const Tensor constant = tensor({1, 2}, here());
  errors::expect<ArgumentError>([&] { grad(std::vector<Tensor>{}, {x}); }, "grad: no outputs");
  errors::expect<ArgumentError>([&] { grad({x.sum()}, std::vector<Tensor>{}); }, "grad: no inputs");
  errors::expect<ArgumentError>([&] { grad({constant.sum()}, {x}); },
                                "grad: output 0 has no history (no input required a gradient, or "
                                "it was recorded under NoGrad)");
  errors::expect<ArgumentError>([&] { grad({x.sum()}, {constant}); },
                                "grad: input 0 does not require a gradient");
  errors::expect<ShapeError>([&] { grad(x * 2, x); },
                             "grad: output 0 is [2], not a scalar; pass grad_outputs");
  errors::expect<ShapeError>([&] { grad({x * 2}, {x}, {.grad_outputs = {tensor({1}, here())}}); },
                             "grad: grad_outputs 0 is [1], the output [2]");
  errors::expect<ArgumentError>([&] { grad({x * 2}, {x}, {.grad_outputs = {x, x}}); },
                                "grad: 2 grad_outputs for 1 outputs");
  errors::expect<ArgumentError>(
      [&] { grad(x.sum(), other); },
      "grad: the outputs do not depend on input 0; pass {.allow_unused = true} for an undefined "
      "gradient");
  EXPECT_FALSE(grad(x.sum(), other, {.allow_unused = true}).defined());
}

TEST(Grad, ConsumesTheHistoryUnlessToldNotTo) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor loss = x.square().sum();
  expect_near(grad(loss, x, {.retain_graph = true}), {2, 4});
  expect_near(grad(loss, x), {2, 4});
  EXPECT_THROW(grad(loss, x), ArgumentError);
}

// ---- Higher orders

TEST(HigherOrder, PolynomialsToTheFourthDerivative) {
  const Tensor x = tensor({0.5, -1, 2}, here(true));
  Tensor y = (x * x * x * x).sum();
  const std::vector<std::vector<double>> wanted = {
      {4 * 0.125, -4, 32}, {12 * 0.25, 12, 48}, {12, -24, 48}, {24, 24, 24}};
  for (const auto& values : wanted) {
    const Tensor g = grad(y, x, {.create_graph = true});
    expect_near(g, values);
    y = g.sum();
  }
}

// Checks the second derivative of an operation by differences of the first.
void check_second(const char* name, const std::function<Tensor(const Tensor&)>& fn,
                  const Tensor& at) {
  const auto slope = [&](const Tensor& given) {
    const EnableGrad enable;
    const Tensor x = given.requires_grad() ? given : given.detach().set_requires_grad();
    const Tensor y = fn(x);
    std::vector<double> weights(static_cast<std::size_t>(y.numel()));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = 0.5 + std::fmod(0.37 * static_cast<double>(i), 1.0);
    const Tensor w = from_vector(weights, y.shape(), {.dtype = y.dtype(), .device = y.device()});
    return grad(y, x, {.grad_outputs = {w}, .create_graph = true});
  };
  const CheckReport report = check_gradients(slope, at, {.eps = 1e-2, .tol = 4e-3});
  EXPECT_TRUE(report.passed) << name << ": " << report.message;
}

TEST(HigherOrder, SecondDerivativesOfOperations) {
  const Tensor x = tensor({0.3, 0.8, -0.6, 1.2, -1.1, 0.4}, {2, 3}, here());
  const Tensor positive = tensor({0.7, 1.3, 0.9, 2.1, 1.7, 1.1}, {2, 3}, here());
  const auto check = [&](const char* name, auto fn) { check_second(name, fn, x); };
  const auto check_positive = [&](const char* name, auto fn) { check_second(name, fn, positive); };
  check("exp", [](const Tensor& t) { return t.exp(); });
  check("expm1", [](const Tensor& t) { return t.expm1(); });
  check("sin", [](const Tensor& t) { return t.sin(); });
  check("cos", [](const Tensor& t) { return t.cos(); });
  check("tanh", [](const Tensor& t) { return t.tanh(); });
  check("erf", [](const Tensor& t) { return t.erf(); });
  check("sigmoid", [](const Tensor& t) { return t.sigmoid(); });
  check("silu", [](const Tensor& t) { return t.silu(); });
  check("gelu", [](const Tensor& t) { return t.gelu(); });
  check("square", [](const Tensor& t) { return t.square(); });
  check("product", [](const Tensor& t) { return t * t.sin(); });
  check("quotient", [](const Tensor& t) { return t / (t * t + 2); });
  check_positive("log", [](const Tensor& t) { return t.log(); });
  check_positive("log1p", [](const Tensor& t) { return t.log1p(); });
  check_positive("sqrt", [](const Tensor& t) { return t.sqrt(); });
  check_positive("rsqrt", [](const Tensor& t) { return t.rsqrt(); });
  check_positive("reciprocal", [](const Tensor& t) { return t.reciprocal(); });
  check_positive("pow", [](const Tensor& t) { return t.pow(t); });
  check("softmax", [](const Tensor& t) { return t.softmax(1); });
  check("log_softmax", [](const Tensor& t) { return t.log_softmax(1); });
  check("mean", [](const Tensor& t) { return t.square().mean(1); });
  check("max", [](const Tensor& t) { return t.square().max(1); });
  check("matmul", [](const Tensor& t) { return t.matmul(t.t()).square(); });
  check("cumsum", [](const Tensor& t) { return t.square().cumsum(1); });
  check("sort", [](const Tensor& t) { return sort(t.square()).values.square(); });
  check("pad, narrow", [](const Tensor& t) {
    return pad(t.square(), std::vector<std::int64_t>{0, 1}, std::vector<std::int64_t>{1, 0})
        .narrow(1, 0, 3)
        .square();
  });
  check("where", [](const Tensor& t) { return where(t.gt(0), t.square(), t.sin()); });
  check("maximum", [](const Tensor& t) { return maximum(t.square(), t.sin()); });
  check("layer_norm", [](const Tensor& t) { return layer_norm(t, {3}); });
  check("mse", [](const Tensor& t) { return mse_loss(t.square(), t.sin()); });
  const Tensor labels = tensor({2, 0}, {.dtype = DType::i64, .device = test_device()});
  check("cross_entropy", [&](const Tensor& t) { return cross_entropy(t, labels); });
  const Tensor ids = tensor({1, 0, 1}, {.dtype = DType::i64, .device = test_device()});
  check("embedding", [&](const Tensor& t) { return embedding(t.square(), ids).square(); });
  const Tensor along =
      tensor({1, 0, 2, 2, 2, 0}, {2, 3}, {.dtype = DType::i64, .device = test_device()});
  check("take_along",
        [&](const Tensor& t) { return take_along_axis(t.square(), along, 1).square(); });
  const Tensor weight = tensor({0.3, -0.2, 0.5, 0.1, 0.7, -0.4}, {2, 3}, here());
  check("linear", [&](const Tensor& t) { return linear(t.square(), weight).square(); });
  check("relu", [](const Tensor& t) { return (t * t * t).relu(); });
}

TEST(HigherOrder, AGradientPenaltyTrainsThroughGradients) {
  // d/dw of (d/dx (w x^2))^2 = d/dw (2 w x)^2 = 8 w x^2
  const Tensor x = tensor({3}, here(true)), w = tensor({2}, here(true));
  const Tensor slope = grad((w * x.square()).sum(), x, {.create_graph = true});
  slope.square().sum().backward();
  expect_near(w.grad(), {8 * 2 * 9.0});
}

TEST(HigherOrder, ALeafChangedSinceKeepsItsGradientPath) {
  Tensor w = tensor({2, 3}, here(true));
  const Tensor y = (w * w * w).sum();
  {
    const NoGrad no_grad;
    w += 10;
  }
  const Tensor g = grad(y, w, {.create_graph = true});
  expect_near(g, {12, 27});
  expect_near(grad(g.sum(), w), {12, 18});
}

TEST(HigherOrder, BackwardWithCreateGraphGivesGradientsAHistory) {
  const Tensor x = tensor({1, 2}, here(true));
  (x * x * x).sum().backward({.create_graph = true});
  const Tensor g = x.grad();
  EXPECT_TRUE(g.requires_grad());
  x.zero_grad();
  g.sum().backward();
  expect_near(x.grad(), {6, 12});
  x.zero_grad();
}

// ---- Hooks and retained gradients

TEST(Hooks, SeeAndReplaceTheGradientOfAResult) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor y = x * 3;
  std::vector<float> seen;
  y.register_hook([&](const Tensor& g) { seen = g.to_vector<float>(); });
  HookHandle twice = y.register_hook([](const Tensor& g) { return g * 2; });
  // The gradient is complete: it includes both uses of y.
  (y * 5 + y).sum().backward({.retain_graph = true});
  EXPECT_EQ(seen, (std::vector<float>{6, 6}));
  expect_near(x.grad(), {36, 36});
  twice.remove();
  x.zero_grad();
  (y * 1).sum().backward();
  expect_near(x.grad(), {3, 3});
}

TEST(Hooks, SeeTheWholeGradientOfALeafOnce) {
  const Tensor w = tensor({1, 2}, here(true));
  int calls = 0;
  w.register_hook([&](const Tensor& g) {
    ++calls;
    return g.relu();
  });
  (w * 3 - w * 5).sum().backward();  // -2 in total
  EXPECT_EQ(calls, 1);
  expect_near(w.grad(), {0, 0});
  (w * 4).sum().backward();
  expect_near(w.grad(), {4, 4});
}

TEST(Hooks, ThatReturnAnotherShapeAreRefused) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor y = x * 3;
  y.register_hook([](const Tensor& g) { return g.sum(); });
  errors::expect<ArgumentError>([&] { y.sum().backward(); },
                                "hook: a gradient f32 [] was returned for one of f32 [2]");
  errors::expect<ArgumentError>([&] { tensor({1}, here()).register_hook([](const Tensor&) {}); },
                                "register_hook: the tensor does not require a gradient");
}

TEST(RetainGrad, KeepsTheGradientOfAResult) {
  const Tensor x = tensor({1, 2}, here(true));
  const Tensor y = x * 3;
  y.retain_grad();
  {
    const Tensor gone = x * 7;
    gone.retain_grad();
    (y * 5 + gone).sum().backward({.retain_graph = true});
  }
  expect_near(y.grad(), {5, 5});
  (y * 2).sum().backward();
  expect_near(y.grad(), {7, 7});
}

// ---- Functions of users

TEST(Functions, HaveTheirOwnGradient) {
  const Function straight_through(
      {.name = "step",
       .forward = [](FunctionContext&,
                     const std::vector<Tensor>& x) { return std::vector{x[0].sign()}; },
       .backward = [](FunctionContext&, const std::vector<Tensor>& g) { return g; }});
  const Tensor x = tensor({-0.5, 2}, here(true));
  const Tensor y = straight_through(x);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{-1, 1}));
  (y * 3).sum().backward();
  expect_near(x.grad(), {3, 3});
}

TEST(Functions, TakeAndGiveSeveralTensorsAndSaveThem) {
  const Function polar({.name = "polar",
                        .forward =
                            [](FunctionContext& context, const std::vector<Tensor>& in) {
                              const Tensor r = (in[0].square() + in[1].square()).sqrt();
                              const Tensor product = in[0] * in[1];
                              context.save({in[0], in[1], r});
                              return std::vector{r, product};
                            },
                        .backward =
                            [](FunctionContext& context, const std::vector<Tensor>& g) {
                              const auto& s = context.saved();
                              Tensor a = zeros_like(s[0]), b = zeros_like(s[1]);
                              if (g[0].defined()) {
                                a = a + g[0] * s[0] / s[2];
                                b = b + g[0] * s[1] / s[2];
                              }
                              if (g[1].defined()) {
                                a = a + g[1] * s[1];
                                b = b + g[1] * s[0];
                              }
                              return std::vector{a, b};
                            }});
  const Tensor a = tensor({3, 1}, here(true)), b = tensor({4, 2}, here(true));
  const std::vector<Tensor> out = polar({a, b});
  (out[0] * 2 + out[1]).sum().backward();
  expect_near(a.grad(), {2 * 0.6 + 4, 2 / std::sqrt(5.0) + 2});
  expect_near(b.grad(), {2 * 0.8 + 3, 4 / std::sqrt(5.0) + 1});
  a.zero_grad();
  b.zero_grad();
  const std::vector<Tensor> one = polar({a, b});  // only one output used
  one[1].sum().backward();
  expect_near(a.grad(), {4, 2});
  // Second order, also through the saved output.
  const Tensor g = grad(polar({a, b})[0].sum(), a, {.create_graph = true});
  expect_near(grad(g.sum(), a), {16 / 125.0, 4 / std::pow(5, 1.5)});
}

// The outputs have nothing in common except the call.
TEST(Functions, GiveTensorsOfDifferentShapesAndDtypes) {
  const Function parts(
      {.name = "parts",
       .forward =
           [](FunctionContext&, const std::vector<Tensor>& in) {
             return std::vector{in[0].narrow(1, 0, 2) * 2, in[0].narrow(1, 2, 3) * 3,
                                in[0].to(DType::f64).sum(1)};
           },
       .backward =
           [](FunctionContext&, const std::vector<Tensor>& g) {
             return std::vector{concat({g[0] * 2, g[1] * 3}, 1) + g[2].to(DType::f32).unsqueeze(1)};
           }});
  const Tensor x = ones({2, 5}, here(true));
  const std::vector<Tensor> out = parts({x});
  (out[0].sum() + out[1].sum() + out[2].sum()).backward();
  expect_near(x.grad(), {3, 3, 4, 4, 4, 3, 3, 4, 4, 4});
}

// A list gives a list, whatever its length.
TEST(Functions, GiveOneTensorForATensorAndAListForAList) {
  const Function f({.name = "f",
                    .forward =
                        [](FunctionContext&, const std::vector<Tensor>& in) {
                          return std::vector{in.empty() ? ones({2}, here()) : in[0] * 2};
                        },
                    .backward = [](FunctionContext&, const std::vector<Tensor>& g) { return g; }});
  const Tensor x = tensor({1, 2}, here(true));
  static_assert(std::is_same_v<decltype(f(x)), Tensor>);
  static_assert(std::is_same_v<decltype(f(x * 2)), Tensor>);
  static_assert(std::is_same_v<decltype(f({x})), std::vector<Tensor>>);
  static_assert(std::is_same_v<decltype(f({x, x})), std::vector<Tensor>>);
  static_assert(std::is_same_v<decltype(f({})), std::vector<Tensor>>);
  static_assert(std::is_same_v<decltype(f(std::vector<Tensor>{x})), std::vector<Tensor>>);
  EXPECT_EQ(f({x}).at(0).to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(f({}).at(0).to_vector<float>(), (std::vector<float>{1, 1}));
  const Tensor y = x.square().sum();
  static_assert(std::is_same_v<decltype(grad(y, x)), Tensor>);
  static_assert(std::is_same_v<decltype(grad({y}, {x})), std::vector<Tensor>>);
  expect_near(grad({y}, {x}).at(0), {2, 4});
}

TEST(Functions, SayWhatIsWrong) {
  const auto make = [](auto backward) {
    return Function({.name = "f",
                     .forward = [](FunctionContext&, const std::vector<Tensor>& x) { return x; },
                     .backward = backward});
  };
  using List = std::vector<Tensor>;
  const Tensor x = tensor({1, 2}, here(true));
  errors::expect<ArgumentError>([] { Function(FunctionOptions{.name = "f"}); },
                                "f: the function has no forward");
  errors::expect<ArgumentError>([&] { make(nullptr)(x * 1).sum().backward(); },
                                "f: the function has no backward");
  errors::expect<ArgumentError>(
      [&] {
        make([](FunctionContext&, const List& g) { return List{g[0], g[0]}; })(x * 1)
            .sum()
            .backward();
      },
      "f: backward gave 2 gradients for 1 inputs");
  errors::expect<ShapeError>(
      [&] {
        make([](FunctionContext&, const List& g) { return List{g[0].sum()}; })(x * 1)
            .sum()
            .backward();
      },
      "f: backward gave [] for input 0, which is [2]");
  errors::expect<ArgumentError>([&] { make(nullptr)(Tensor()); }, "f: an input is not a tensor");
}

// ---- Recomputing

TEST(Checkpoint, GivesTheSameValuesAndGradients) {
  const Tensor w = (rand({16, 16}, here()) - 0.5).eval();
  const auto block = [](const Tensor& weight) {
    return [weight](const Tensor& x) { return dropout((x.matmul(weight)).tanh(), 0.25) * 2; };
  };
  const Tensor x0 = rand({4, 16}, here()).eval();
  const auto run = [&](bool recompute) {
    manual_seed(7);
    const Tensor x = x0.detach().set_requires_grad(), weight = w.detach().set_requires_grad();
    Tensor y = x;
    for (int i = 0; i < 3; ++i) y = recompute ? checkpoint(block(weight), y) : block(weight)(y);
    const Tensor loss = (y.square() + rand({4, 16}, here())).sum();
    loss.backward();
    return std::vector{loss.detach(), x.grad(), weight.grad()};
  };
  const auto plain = run(false), again = run(true);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(plain[i].to_vector<float>(), again[i].to_vector<float>()) << i;
}

TEST(Checkpoint, WorksWithGradAndSecondOrder) {
  const Tensor x = tensor({0.5, 1.5}, here(true));
  const Tensor y = checkpoint([](const Tensor& t) { return (t * t * t).sin(); }, x);
  const Tensor g = grad(y.sum(), x, {.create_graph = true});
  const Tensor h = grad(g.sum(), x);
  std::vector<double> first, second;
  for (const double v : {0.5, 1.5}) {
    first.push_back(std::cos(v * v * v) * 3 * v * v);
    second.push_back(-std::sin(v * v * v) * 9 * v * v * v * v + std::cos(v * v * v) * 6 * v);
  }
  expect_near(g, first);
  expect_near(h, second);
}

TEST(Checkpoint, TakesLessMemory) {
  constexpr int kLayers = 16;
  const std::int64_t n = 256;
  std::vector<Tensor> weights;
  for (int i = 0; i < kLayers; ++i)
    weights.push_back((rand({n, n}, here()) - 0.5).eval().detach().set_requires_grad());
  const Tensor x = rand({4096, n}, here()).eval();
  const auto peak = [&](bool recompute) {
    for (int repeat = 0; repeat < 2; ++repeat) {
      synchronize(test_device());
      empty_cache(test_device());
      reset_peak_memory(test_device());
      Tensor y = x;
      for (int i = 0; i < kLayers; i += 4) {
        const auto stretch = [&, i](const Tensor& in) {
          Tensor t = in;
          for (int k = i; k < i + 4; ++k) t = t.matmul(weights[static_cast<std::size_t>(k)]).tanh();
          return t;
        };
        y = recompute ? checkpoint(stretch, y) : stretch(y);
      }
      y.sum().backward();
      for (const Tensor& weight : weights) {
        weight.grad().eval();
        weight.zero_grad();
      }
      synchronize(test_device());
    }
    return memory_stats(test_device()).peak;
  };
  // The order matters, because the memory that plans share does not shrink.
  const std::uint64_t layer = 4096 * 256 * 4, recomputed = peak(true), kept = peak(false);
  EXPECT_LT(recomputed + 6 * layer, kept);
}

TEST(Checkpoint, AFunctionThatDoesOtherThingsTheSecondTimeIsFound) {
  const Tensor x = tensor({1, 2}, here(true));
  int calls = 0;
  const Tensor y =
      checkpoint([&](const Tensor& t) { return ++calls == 1 ? t.exp().sin() : t.exp(); }, x);
  errors::expect<ArgumentError>(
      [&] { y.sum().backward(); },
      "checkpoint: the function recorded 2 operations with gradients, and 1 when called again");
}

// ---- Anomalies

TEST(Anomaly, NamesTheOperationThatMadeTheFirstNan) {
  const AnomalyMode anomaly;
  const Tensor x = tensor({1, -1, 4}, here(true));
  const auto message_of = [](auto act) {
    try {
      act();
    } catch (const NanError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string forward = message_of([&] { (x * 2).log(); });
  EXPECT_NE(forward.find("log ("), std::string::npos) << forward;
  EXPECT_NE(forward.find("autograd_test.cpp:"), std::string::npos) << forward;
  EXPECT_NE(forward.find("made the first NaN: 1 of 3 elements of [3]"), std::string::npos)
      << forward;
  // The backward pass of sqrt computes 0 * inf at 0.
  const Tensor zero = tensor({0, 1}, here(true));
  const std::string backward = message_of([&] { (zero.sqrt() * 0).sum().backward(); });
  EXPECT_NE(backward.find("the gradient of sqrt ("), std::string::npos) << backward;
}

TEST(Anomaly, NansThatWereThereAreNobodysFault) {
  const Tensor x = tensor({1, std::nan(""), 4}, here());
  const AnomalyMode anomaly;
  EXPECT_NO_THROW((x * 2 + 1).sum());
}

}  // namespace
}  // namespace volta
