// Optimizers against plain loops in double precision, with PyTorch's formulas; their state and
// checks.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/test_device.h"
#include "volta/volta.h"

using namespace volta;

namespace {

constexpr int kSteps = 7;
const std::vector<Shape> kShapes = {{3, 2}, {5}, {}};

// The gradient of element i of parameter p at a step, an arbitrary formula.
double gradient_at(int step, std::size_t p, std::size_t i) {
  return std::sin(1.7 * step + 0.9 * static_cast<double>(p) + 0.31 * static_cast<double>(i));
}

using Values = std::vector<std::vector<double>>;

std::vector<double> gradient_values(int step, std::size_t p, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = gradient_at(step, p, i);
  return values;
}

Values initial_values() {
  Values values;
  for (std::size_t p = 0; p < kShapes.size(); ++p) {
    std::vector<double> v(static_cast<std::size_t>(kShapes[p].numel()));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = 0.5 - 0.37 * static_cast<double>(i + p);
    values.push_back(v);
  }
  return values;
}

std::vector<Tensor> make_parameters() {
  std::vector<Tensor> parameters;
  const Values values = initial_values();
  for (std::size_t p = 0; p < kShapes.size(); ++p) {
    parameters.push_back(
        from_vector(values[p], kShapes[p],
                    {.dtype = DType::f32, .device = test_device(), .requires_grad = true}));
  }
  return parameters;
}

void set_gradients(std::vector<Tensor>& parameters, int step) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const auto count = static_cast<std::size_t>(parameters[p].numel());
    parameters[p].set_grad(from_vector(gradient_values(step, p, count), parameters[p].shape(),
                                       {.dtype = DType::f32, .device = test_device()}));
  }
}

// The update of one element: (value, gradient, step counted from 1, memory of two numbers).
struct Memory {
  double first = 0, second = 0;
};

template <class Update>
Values reference(Update&& update, int steps = kSteps) {
  Values values = initial_values();
  for (std::size_t p = 0; p < values.size(); ++p) {
    std::vector<Memory> memory(values[p].size());
    for (int step = 1; step <= steps; ++step) {
      const std::vector<double> gradient = gradient_values(step, p, values[p].size());
      for (std::size_t i = 0; i < values[p].size(); ++i) {
        update(values[p][i], gradient[i], step, memory[i]);
      }
    }
  }
  return values;
}

void expect_near(const std::vector<Tensor>& parameters, const Values& expected) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::vector<float> values = parameters[p].to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[p][i], 2e-6 * (1 + std::abs(expected[p][i])))
          << "parameter " << p << " element " << i;
    }
  }
}

void expect_sgd(const optim::SGDOptions& o) {
  std::vector<Tensor> parameters = make_parameters();
  optim::SGD optimizer(parameters, o);
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  expect_near(parameters, reference([&](double& value, double g, int step, Memory& m) {
                g += o.weight_decay * value;
                if (o.momentum != 0) {
                  m.first = step == 1 ? g : o.momentum * m.first + (1 - o.dampening) * g;
                  g = o.nesterov ? g + o.momentum * m.first : m.first;
                }
                value -= o.lr * g;
              }));
}

struct AdamCase {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
};

Values adam_reference(const AdamCase& o, int steps = kSteps) {
  return reference(
      [&](double& value, double g, int step, Memory& m) {
        if (o.decoupled) {
          value *= 1 - o.lr * o.weight_decay;
        } else {
          g += o.weight_decay * value;
        }
        m.first = o.beta1 * m.first + (1 - o.beta1) * g;
        m.second = o.beta2 * m.second + (1 - o.beta2) * g * g;
        const double first = m.first / (1 - std::pow(o.beta1, step));
        const double second = m.second / (1 - std::pow(o.beta2, step));
        value -= o.lr * first / (std::sqrt(second) + o.eps);
      },
      steps);
}

template <class F>
std::string message_of(F&& fn) {
  try {
    fn();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST(SGD, Plain) { expect_sgd({.lr = 0.1}); }
TEST(SGD, WeightDecay) { expect_sgd({.lr = 0.1, .weight_decay = 0.3}); }
TEST(SGD, Momentum) { expect_sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); }
TEST(SGD, Dampening) {
  expect_sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.4});
  expect_sgd({.lr = 0.1, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.2});
}
TEST(SGD, Nesterov) {
  expect_sgd({.lr = 0.1, .momentum = 0.9, .weight_decay = 0.05, .nesterov = true});
}

TEST(Adam, MatchesTheReference) {
  std::vector<Tensor> parameters = make_parameters();
  optim::Adam optimizer(parameters, {.lr = 0.05});
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  expect_near(parameters, adam_reference({0.05, 0.9, 0.999, 1e-8, 0, false}));
}

TEST(Adam, WeightDecayBetasAndEps) {
  std::vector<Tensor> parameters = make_parameters();
  optim::Adam optimizer(parameters,
                        {.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1});
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  expect_near(parameters, adam_reference({0.05, 0.8, 0.95, 1e-3, 0.1, false}));
}

TEST(AdamW, DecaysTheParameterItself) {
  std::vector<Tensor> parameters = make_parameters();
  optim::AdamW optimizer(parameters, {.lr = 0.05, .weight_decay = 0.2});
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  expect_near(parameters, adam_reference({0.05, 0.9, 0.999, 1e-8, 0.2, true}));

  std::vector<Tensor> defaults = make_parameters();
  optim::AdamW with_defaults(defaults);
  set_gradients(defaults, 1);
  with_defaults.step();
  expect_near(defaults, adam_reference({1e-3, 0.9, 0.999, 1e-8, 1e-2, true}, 1));
}

TEST(Adam, ItsFirstStepsBiasCorrectionIsAccurate) {
  // With any gradient g the first step moves by lr * g / (|g| + eps): 1 - 0.999 must not lose bits.
  Tensor p = zeros({1}, {.device = test_device(), .requires_grad = true});
  optim::Adam optimizer({p}, {.lr = 1, .eps = 0});
  p.set_grad(full({1}, 0.3, {.device = test_device()}));
  optimizer.step();
  EXPECT_NEAR(p.item(), -1, 2e-6);  // 1 - f32(0.999) would be off by 6e-6
}

TEST(Optimizer, LearningRateCanChangeBetweenSteps) {
  Tensor p = zeros({1}, {.device = test_device(), .requires_grad = true});
  optim::SGD optimizer({p}, {.lr = 1});
  for (const double lr : {1.0, 0.5, 0.25}) {
    optimizer.set_lr(lr);
    EXPECT_EQ(optimizer.lr(), lr);
    p.set_grad(ones({1}, {.device = test_device()}));
    optimizer.step();
  }
  EXPECT_EQ(p.item(), -1.75);
  EXPECT_EQ(message_of([&] { optimizer.set_lr(-1); }), "SGD: lr must be in [0, inf), got -1");
}

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
  std::vector<Tensor> parameters = make_parameters();
  optim::Adam optimizer(parameters, {.lr = 0.05});
  optimizer.step();  // nothing to do yet
  EXPECT_EQ(optimizer.state_dict().size(), 8u) << "seven options and the number of parameters";
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    parameters[1].zero_grad();
    optimizer.step();
  }
  Values expected = adam_reference({0.05, 0.9, 0.999, 1e-8, 0, false});
  expected[1] = initial_values()[1];
  expect_near(parameters, expected);
  EXPECT_TRUE(optimizer.state_dict().contains("0.exp_avg"));
  EXPECT_FALSE(optimizer.state_dict().contains("1.exp_avg"));
}

// As in fine-tuning: the optimizer has all parameters, of which some are frozen for a while.
TEST(Optimizer, FrozenParametersWaitUntilTheyAreUnfrozen) {
  std::vector<Tensor> parameters = make_parameters();
  for (Tensor& p : parameters) p.set_requires_grad(false);
  optim::Adam optimizer(parameters, {.lr = 0.05});
  optimizer.step();  // no parameter takes part
  parameters[0].set_requires_grad();
  parameters[2].set_requires_grad();
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);  // that of the frozen parameter is left over
    optimizer.step();
  }
  Values expected = adam_reference({0.05, 0.9, 0.999, 1e-8, 0, false});
  const std::vector<double> trained = expected[1];
  expected[1] = initial_values()[1];
  expect_near(parameters, expected);
  EXPECT_FALSE(optimizer.state_dict().contains("1.exp_avg"));
  // Now the other parameters are frozen.
  parameters[0].set_requires_grad(false);
  parameters[2].set_requires_grad(false);
  parameters[1].set_requires_grad();
  for (int step = 1; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    optimizer.step();
  }
  expected[1] = trained;
  expect_near(parameters, expected);
  EXPECT_EQ(optimizer.state_dict().at("0.step").item(), kSteps);
}

TEST(Optimizer, FrozenParametersDoNotStopAScaler) {
  Tensor a = zeros({2}, {.device = test_device(), .requires_grad = true});
  Tensor b = zeros({2}, {.device = test_device(), .requires_grad = true});
  optim::SGD optimizer({a, b}, {.lr = 1});
  GradScaler scaler({.init_scale = 4});
  b.set_grad(full({2}, INFINITY, {.device = test_device()}));
  b.set_requires_grad(false);
  scaler.scale(a.sum()).backward();
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{-1, -1}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{0, 0}));
}

// A gradient from before a conversion: the message names the parameter and a remedy.
TEST(Optimizer, NamesTheParameterWhoseGradientDoesNotFit) {
  const std::string home = to_string(test_device());
  std::vector<Tensor> parameters = make_parameters();
  optim::SGD optimizer(
      {{.parameters = {parameters[0]}}, {.parameters = {parameters[1], parameters[2]}, .lr = 0.5}});
  set_gradients(parameters, 1);
  parameters[1].zero_grad();
  {
    NoGrad no_grad;
    assign(parameters[2], parameters[2].detach().to(DType::f64));
  }
  EXPECT_EQ(message_of([&] { optimizer.step(); }),
            "SGD: parameter 2 is f64 [] on " + home + ", but its gradient is f32 [] on " + home +
                ": call zero_grad() after to(), before the next backward()");
  optimizer.zero_grad();
  optimizer.step();
}

TEST(Optimizer, ZeroGradDropsGradients) {
  std::vector<Tensor> parameters = make_parameters();
  optim::SGD optimizer(parameters);
  set_gradients(parameters, 1);
  optimizer.zero_grad();
  for (const Tensor& p : parameters) EXPECT_FALSE(p.grad().defined());
}

TEST(Optimizer, ResumesFromItsStateDict) {
  std::vector<Tensor> parameters = make_parameters();
  StateDict state;
  {
    optim::Adam optimizer(parameters, {.lr = 0.05});
    for (int step = 1; step <= 3; ++step) {
      set_gradients(parameters, step);
      optimizer.step();
    }
    state = optimizer.state_dict();
  }
  EXPECT_EQ(state.at("groups.0.lr").item(), 0.05);
  EXPECT_EQ(state.at("2.step").item(), 3);
  optim::Adam resumed(parameters, {.lr = 1});
  resumed.load_state_dict(state);
  for (int step = 4; step <= kSteps; ++step) {
    set_gradients(parameters, step);
    resumed.step();
  }
  expect_near(parameters, adam_reference({0.05, 0.9, 0.999, 1e-8, 0, false}));
}

TEST(Optimizer, LoadingListsAllThatDoesNotFit) {
  std::vector<Tensor> parameters = make_parameters();
  optim::Adam optimizer(parameters, {.lr = 0.05});
  EXPECT_EQ(message_of([&] {
              const auto number = [](double value) { return scalar(value, {.dtype = DType::f64}); };
              optimizer.load_state_dict({{"groups.0.parameters", number(2)},
                                         {"groups.0.lr", number(-1)},
                                         {"groups.0.betas.first", number(0.5)},
                                         {"groups.0.betas.second", number(1)},
                                         {"groups.0.eps", ones({2})},
                                         {"groups.0.weight_decay", number(0)},
                                         {"groups.0.amsgrad", number(0.5)},
                                         {"groups.0.initial_lr", number(-2)},
                                         {"groups.1.lr", number(1)},
                                         {"0.exp_avg", ones({3, 2})},
                                         {"0.exp_avg_sq", ones({2, 3})},
                                         {"1.momentum_buffer", ones({5})}});
            }),
            "Adam: the state dict does not fit the optimizer\n"
            "  wrong value: groups.0.parameters is 3 in the optimizer, 2 in the state dict\n"
            "  wrong shape: groups.0.eps is a number, [2] in the state dict\n"
            "  missing: groups.0.maximize\n"
            "  wrong value: groups.0.lr must be in [0, inf), got -1\n"
            "  wrong value: groups.0.betas.second must be in [0, 1), got 1\n"
            "  wrong value: groups.0.amsgrad must be whole, got 0.5\n"
            "  wrong value: groups.0.initial_lr must be in [0, inf), got -2\n"
            "  wrong shape: 0.exp_avg_sq is [3, 2] in the optimizer, [2, 3] in the state dict\n"
            "  missing: 0.step []\n"
            "  missing: 0.max_exp_avg_sq [3, 2]\n"
            "  unexpected: groups.1.lr []\n"
            "  unexpected: 1.momentum_buffer [5]");
  EXPECT_EQ(optimizer.state_dict().size(), 8u);
  EXPECT_EQ(optimizer.lr(), 0.05);
}

TEST(Optimizer, StateFollowsAParameterToAnotherDevice) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  nn::Linear layer(2, 2);
  optim::Adam optimizer(layer.parameters(), {.lr = 0.1});
  const auto step = [&] {
    layer(ones({1, 2}, {.device = layer.device()})).sum().backward();
    optimizer.step();
  };
  step();
  layer.to(test_device());
  step();
  EXPECT_EQ(optimizer.state_dict().at("0.exp_avg").device(), test_device());
  EXPECT_EQ(optimizer.state_dict().at("0.step").item(), 2);
}

TEST(Optimizer, RefusesBadArguments) {
  const Tensor p = zeros({2}, {.requires_grad = true});
  EXPECT_EQ(message_of([&] { optim::SGD({p}, {.lr = -0.1}); }),
            "SGD: lr must be in [0, inf), got -0.1");
  EXPECT_EQ(message_of([&] { optim::SGD({p}, {.lr = std::nan("")}); }),
            "SGD: lr must be in [0, inf), got nan");
  EXPECT_EQ(message_of([&] { optim::SGD({p}, {.momentum = -1}); }),
            "SGD: momentum must be in [0, inf), got -1");
  EXPECT_EQ(message_of([&] { optim::SGD({p}, {.weight_decay = -1}); }),
            "SGD: weight_decay must be in [0, inf), got -1");
  EXPECT_EQ(message_of([&] { optim::SGD({p}, {.nesterov = true}); }),
            "SGD: nesterov needs a momentum and no dampening");
  EXPECT_EQ(message_of([&] { optim::Adam({p}, {.betas = {1.0, 0.999}}); }),
            "Adam: betas.first must be in [0, 1), got 1");
  EXPECT_EQ(message_of([&] { optim::Adam({p}, {.betas = {0.9, -0.5}}); }),
            "Adam: betas.second must be in [0, 1), got -0.5");
  EXPECT_EQ(message_of([&] { optim::Adam({p}, {.eps = -1}); }),
            "Adam: eps must be in [0, inf), got -1");
  EXPECT_EQ(message_of([&] { optim::AdamW({p}, {.weight_decay = -1}); }),
            "AdamW: weight_decay must be in [0, inf), got -1");
  EXPECT_EQ(message_of([&] { optim::Adam(std::vector<Tensor>{}); }),
            "Adam: there are no parameters");
  EXPECT_EQ(message_of([&] { optim::Adam({p, Tensor()}); }), "Adam: parameter 1 is undefined");
  EXPECT_EQ(message_of([&] { optim::Adam({zeros({2}, {.dtype = DType::i64})}); }),
            "Adam: parameter 0 is not floating");
  EXPECT_EQ(message_of([&] { optim::Adam({p * 2}); }),
            "Adam: parameter 0 is not a leaf: it was computed from other tensors");
  EXPECT_EQ(message_of([&] { optim::Adam({p, p}); }), "Adam: parameter 1 is there already");
}

TEST(Optimizer, TrainsXor) {
  manual_seed(42);
  nn::Sequential model({{"fc1", nn::Linear(2, 8)}, {"act", nn::Tanh()}, {"fc2", nn::Linear(8, 1)}});
  model.to(test_device());
  const Tensor x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, {.device = test_device()});
  const Tensor y = tensor({0, 1, 1, 0}, {4, 1}, {.device = test_device()});
  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  double last = 1;
  for (int epoch = 0; epoch <= 200; ++epoch) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    if (epoch == 200) last = loss.item();
  }
  EXPECT_LT(last, 0.02);
}
