// Groups of parameters, the cost of steps and schedules, GradScaler with every optimizer, and
// errors.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/library/matmul.h"
#include "optim/grad_scaler_training.h"
#include "optim/optim_cases.h"
#include "support/errors.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using optim_cases::Case;
using optim_cases::Training;
using scaling::counted;
using scaling::values_of;

const StateDict& golden_values() {
  static const StateDict values =
      load(paths::golden_dir() + "/optim.safetensors", {.device = test_device()});
  return values;
}
Tensor parameter(double value = 0) {
  return full({2}, value, {.device = test_device(), .requires_grad = true});
}
bool few_kernels(const Case& c) {
  return test_device().type() == DeviceType::opencl && std::string(c.name) != "lion0";
}

TEST(ParamGroups, NumbersOfEach) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  const Tensor a = parameter(), b = parameter(), c = parameter();
  optim::SGD optimizer({{.parameters = {a, b}}, {.parameters = {c}, .lr = 0.25}},
                       {.lr = 1.5, .momentum = 0.5});
  ASSERT_EQ(optimizer.groups().size(), 2u);
  EXPECT_EQ(optimizer.lr(), 1.5);
  EXPECT_EQ(optimizer.groups()[1].lr(), 0.25);
  EXPECT_EQ(optimizer.groups()[1].get("momentum"), 0.5);
  EXPECT_EQ(optimizer.groups()[0].parameters().size(), 2u);
  EXPECT_EQ(optimizer.parameters().size(), 3u);
  optimizer.groups()[0].set("momentum", 0);
  optimizer.groups()[0].set_lr(0.75);
  for (const Tensor& p : {a, b, c}) p.set_grad(ones({2}, {.device = test_device()}));
  optimizer.step();
  EXPECT_EQ(values_of(b), std::vector<double>(2, -0.75));
  EXPECT_EQ(values_of(c), std::vector<double>(2, -0.25));
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("groups.0.parameters").item(), 2);
  EXPECT_EQ(state.at("groups.1.lr").item(), 0.25);
  EXPECT_FALSE(state.contains("0.momentum_buffer")) << "that group has none";
  EXPECT_TRUE(state.contains("2.momentum_buffer"));
  optimizer.set_lr(2);
  EXPECT_EQ(optimizer.groups()[0].lr(), 2);
  EXPECT_EQ(optimizer.groups()[1].lr(), 2);
}

TEST(ParamGroups, AreAddedLater) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  const Tensor a = parameter(), b = parameter();
  optim::Adam optimizer({a}, {.lr = 0.5, .eps = 0});
  const auto step = [&] {
    for (const Tensor& p : {a, b}) p.set_grad(ones({2}, {.device = test_device()}));
    optimizer.step();
  };
  step();
  EXPECT_EQ(values_of(b)[0], 0);
  optimizer.add_param_group({.parameters = {b}, .lr = 0.125});
  step();
  EXPECT_NEAR(values_of(a)[0], -1, 1e-6);
  EXPECT_NEAR(values_of(b)[0], -0.125, 1e-7);
  EXPECT_EQ(optimizer.state_dict().at("0.step").item(), 2);
  EXPECT_EQ(optimizer.state_dict().at("1.step").item(), 1);
  optimizer.zero_grad();
  EXPECT_FALSE(b.grad().defined());
}

// The kernels and library calls of a step with two groups on the CPU. Parameters with equal
// programs share a launch; a scalar has a program of its own. Small products of Muon are kernels,
// which some of muon2's are. Its other products are in bf16: if the library cannot multiply bf16 on
// this processor, operands and results are converted.
const std::map<std::string, std::uint64_t>& kernels_per_step() {
  static const std::map<std::string, std::uint64_t> kernels = {
      {"sgd1", 3},     {"adam0", 2},
      {"adam3", 3},    {"adamw0", 3},
      {"rmsprop3", 3}, {"adagrad1", 2},
      {"lion0", 2},    {"lion1", 3},
      {"muon0", 27},   {"muon2", cpu::onednn_multiplies(DType::bf16) ? 41 : 46}};
  return kernels;
}

// A step is one plan, whatever the learning rates; nothing is built, compiled or copied.
TEST(OptimCounts, SteadySteps) {
  for (const Case& c : optim_cases::all()) {
    const auto kernels = kernels_per_step().find(c.name);
    if (kernels == kernels_per_step().end() || few_kernels(c)) continue;
    SCOPED_TRACE(c.name);
    const Training run(c, golden_values());
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < run.parameters.size(); ++i)
      gradients.push_back(run.gradient(i, 0).eval());
    const auto step = [&](double lr) {
      for (std::size_t i = 0; i < gradients.size(); ++i) run.parameters[i].set_grad(gradients[i]);
      run.optimizer->set_lr(lr);
      run.optimizer->step();
    };
    for (int i = 0; i < 4; ++i) step(0.3);
    synchronize(test_device());
    const Counters steady = counted([&] {
      for (const double lr : {0.25, 1.0, 0.5, 0.0, 2.0, 1e-3}) step(lr);
      synchronize(test_device());
    });
    EXPECT_EQ(steady.submits, 6u);
    EXPECT_EQ(steady.plans_built, 0u);
    EXPECT_EQ(steady.compilations, 0u);
    EXPECT_EQ(steady.transfers, 0u);
    // Without a library products are kernels too; long ones take several steps.
    const bool kernel_products =
        std::string_view(c.name).starts_with("muon") && steady.library_calls == 0;
    if (test_device().is_cpu() && !kernel_products) {
      EXPECT_EQ((steady.launches + steady.library_calls) / 6, kernels->second);
    }
  }
}

TEST(OptimCounts, SchedulersBuildNothing) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  const Tensor a = parameter(1), b = parameter(1);
  optim::Adam optimizer({{.parameters = {a}}, {.parameters = {b}, .weight_decay = 0.1}});
  optim::OneCycleLR schedule(optimizer, {.max_lr = {0.5}, .total_steps = 60});
  const Tensor gradient = ones({2}, {.device = test_device()}).eval();
  const auto step = [&] {
    for (const Tensor& p : {a, b}) p.set_grad(gradient);
    optimizer.step();
    schedule.step();
  };
  for (int i = 0; i < 4; ++i) step();
  synchronize(test_device());
  const Counters steady = counted([&] {
    for (int i = 0; i < 50; ++i) step();
    synchronize(test_device());
  });
  EXPECT_EQ(steady.submits, 50u);
  EXPECT_EQ(steady.plans_built, 0u);
  EXPECT_EQ(steady.compilations, 0u);
  EXPECT_EQ(steady.transfers, 0u);
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance,
                 const std::string& what) {
  const std::vector<double> a = values_of(actual), b = values_of(expected);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << what << " " << i;
}

// A scaled step equals the plain one except for rounding (in Muon's bf16); a skipped one changes
// nothing.
TEST(OptimScaling, EveryOptimizerHeedsIt) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  for (const Case& c : optim_cases::all()) {
    SCOPED_TRACE(c.name);
    const Training plain(c, golden_values()), scaled(c, golden_values());
    GradScaler scaler({.init_scale = 1024});
    for (const int step : {0, 1, 2, 3}) {
      const bool bad = step == 1;
      if (!bad) plain.steps(step, step + 1);
      Tensor loss = zeros({}, {.device = test_device()});
      scaled.optimizer->zero_grad();
      for (std::size_t i = 0; i < scaled.parameters.size(); ++i) {
        const Tensor factor =
            bad && i == 0 ? scaled.gradient(i, step) * scaling::kInf : scaled.gradient(i, step);
        loss = loss + (scaled.parameters[i] * factor).sum();
      }
      scaler.scale(loss).backward();
      scaler.step(*scaled.optimizer);
      scaler.update();
    }
    const double tolerance = std::string(c.name).starts_with("muon") ? 1e-3 : 1e-6;
    for (std::size_t i = 0; i < plain.parameters.size(); ++i)
      expect_near(scaled.parameters[i], plain.parameters[i], tolerance, "parameter");
    const StateDict state = scaled.optimizer->state_dict();
    for (const auto& [key, value] : plain.optimizer->state_dict())
      expect_near(state.at(key), value, 2e-6, key);
    EXPECT_EQ(scaler.get_scale(), 512);
  }
}

// A first phase of one step has no length, so the cycle starts at its peak.
TEST(Schedulers, OneCycleOfAShortFirstPhase) {
  for (const bool three_phase : {false, true}) {
    const Tensor p = zeros({2}, {.requires_grad = true});
    optim::SGD optimizer({p}, {.lr = 0.1, .momentum = 0.9});
    optim::OneCycleLR schedule(
        optimizer,
        {.max_lr = {0.5}, .total_steps = 10, .pct_start = 0.1, .three_phase = three_phase});
    EXPECT_EQ(optimizer.lr(), 0.5);
    EXPECT_EQ(optimizer.groups()[0].get("momentum"), 0.85);
    double before = 0.5;
    for (int step = 1; step < 10; ++step) {
      schedule.step();
      EXPECT_LT(optimizer.lr(), before) << step;
      before = optimizer.lr();
    }
    EXPECT_NEAR(optimizer.lr(), 0.5 / 25 / 1e4, 1e-12);
  }
}

// ---- Errors, which do not depend on the device.

TEST(OptimErrors, Groups) {
  const Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({2}, {.requires_grad = true});
  using errors::expect;
  expect<ArgumentError>([] { optim::Lion(std::vector<optim::LionGroup>{}); },
                        "Lion: there are no groups of parameters");
  expect<ArgumentError>([&] { optim::SGD({{.parameters = {a}}, {.parameters = {}}}); },
                        "SGD: group 1: there are no parameters");
  expect<ArgumentError>([&] { optim::SGD({{.parameters = {a}}, {.parameters = {b}, .lr = -2}}); },
                        "SGD: group 1: lr must be in [0, inf), got -2");
  expect<ArgumentError>([&] { optim::SGD({{.parameters = {a}}, {.parameters = {b, a}}}); },
                        "SGD: parameter 2 is there already");
  optim::SGD optimizer({a}, {.momentum = 0.5, .nesterov = true});
  expect<ArgumentError>([&] { optimizer.add_param_group({.parameters = {b}, .momentum = 0}); },
                        "SGD: group 1: nesterov needs a momentum and no dampening");
  EXPECT_EQ(optimizer.groups().size(), 1u);
  EXPECT_EQ(optimizer.parameters().size(), 1u);
  optim::ParamGroup& group = optimizer.groups()[0];
  expect<ArgumentError>([&] { group.set("momentum", 0); },
                        "SGD: nesterov needs a momentum and no dampening");
  EXPECT_EQ(group.get("momentum"), 0.5);
  expect<ArgumentError>([&] { group.set("nesterov", 2); },
                        "SGD: nesterov must be in [0, 2), got 2");
  expect<ArgumentError>(
      [&] { (void)group.get("beta"); },
      "SGD: there is no option beta (but lr, momentum, dampening, weight_decay, nesterov, "
      "maximize)");
  expect<ArgumentError>([&] { group.set_initial_lr(-1); },
                        "SGD: initial_lr must be in [0, inf), got -1");
}

TEST(OptimErrors, Options) {
  const Tensor p = zeros({2}, {.requires_grad = true});
  const Tensor w = zeros({2, 3}, {.requires_grad = true});
  using errors::expect;
  expect<ArgumentError>([&] { optim::RMSprop({p}, {.alpha = -1}); },
                        "RMSprop: alpha must be in [0, inf), got -1");
  expect<ArgumentError>([&] { optim::RMSprop({p}, {.momentum = -1}); },
                        "RMSprop: momentum must be in [0, inf), got -1");
  expect<ArgumentError>([&] { optim::Adagrad({p}, {.lr_decay = -1}); },
                        "Adagrad: lr_decay must be in [0, inf), got -1");
  expect<ArgumentError>([&] { optim::Adagrad({p}, {.initial_accumulator_value = -1}); },
                        "Adagrad: initial_accumulator_value must be in [0, inf), got -1");
  expect<ArgumentError>([&] { optim::Lion({p}, {.betas = {0.9, 1}}); },
                        "Lion: betas.second must be in [0, 1), got 1");
  expect<ArgumentError>([&] { optim::Muon({p}); }, "Muon: parameter 0 is not a matrix");
  expect<ArgumentError>([&] { optim::Muon({w}, {.ns_steps = 100}); },
                        "Muon: ns_steps must be in [0, 100), got 100");
  expect<ArgumentError>([&] { optim::Muon({w}, {.momentum = -1}); },
                        "Muon: momentum must be in [0, inf), got -1");
}

TEST(OptimErrors, Updates) {
  const std::vector<Tensor> parameters = {zeros({2, 2}, {.requires_grad = true})};
  std::vector<Tensor> none, one = {zeros({2, 2})}, undefined(1);
  parameters[0].set_grad(ones({2, 2}));
  using errors::expect;
  expect<ArgumentError>([&] { sgd_step(parameters, none, {.momentum = 0.5}); },
                        "sgd: 0 momentum buffers for 1 parameters");
  expect<ArgumentError>([&] { adam_step(parameters, one, none, one, {}); },
                        "adam: second moments for 0 of 1 parameters");
  expect<ArgumentError>([&] { rmsprop_step(parameters, none, {}); },
                        "rmsprop: averages of squares for 0 of 1 parameters");
  expect<ArgumentError>([&] { adagrad_step(parameters, one, none, {}); },
                        "adagrad: step counts for 0 of 1 parameters");
  expect<ArgumentError>([&] { lion_step(parameters, none, {}); },
                        "lion: averages of gradients for 0 of 1 parameters");
  expect<ArgumentError>([&] { muon_step(parameters, none, {}); },
                        "muon: momentum buffers for 0 of 1 parameters");
  const std::vector<Tensor> row = {zeros({2}, {.requires_grad = true})};
  expect<ShapeError>([&] { muon_step(row, one, {}); }, "muon: a parameter is [2], no matrix");
}

TEST(OptimErrors, Schedulers) {
  const Tensor a = zeros({2}, {.requires_grad = true}), b = zeros({2}, {.requires_grad = true});
  optim::SGD sgd({{.parameters = {a}}, {.parameters = {b}}});
  optim::Adagrad adagrad({zeros({2}, {.requires_grad = true})});
  using errors::expect;
  expect<ArgumentError>([&] { optim::StepLR(sgd, {.step_size = 0}); },
                        "StepLR: step_size must be positive, got 0");
  expect<ArgumentError>([&] { optim::MultiStepLR(sgd, {.gamma = -1}); },
                        "MultiStepLR: gamma must be 0 or more, got -1");
  expect<ArgumentError>([&] { optim::ExponentialLR(sgd, {.gamma = -1}); },
                        "ExponentialLR: gamma must be 0 or more, got -1");
  expect<ArgumentError>([&] { optim::LinearLR(sgd, {.start_factor = 0}); },
                        "LinearLR: start_factor must be in (0, 1], got 0");
  expect<ArgumentError>([&] { optim::LinearLR(sgd, {.end_factor = 1.5}); },
                        "LinearLR: end_factor must be in [0, 1], got 1.5");
  expect<ArgumentError>([&] { optim::CosineAnnealingLR(sgd, {}); },
                        "CosineAnnealingLR: T_max must be positive, got 0");
  expect<ArgumentError>([&] { optim::CosineLR(sgd, {.total_steps = 5, .warmup_steps = 5}); },
                        "CosineLR: total_steps must be more than warmup_steps, got 5");
  expect<ArgumentError>([&] { optim::OneCycleLR(sgd, {.max_lr = {1}}); },
                        "OneCycleLR: total_steps must be positive, got 0");
  expect<ArgumentError>([&] { optim::OneCycleLR(sgd, {.max_lr = {1, 2, 3}, .total_steps = 5}); },
                        "OneCycleLR: max_lr has 3 values for 2 groups");
  expect<ArgumentError>(
      [&] { optim::OneCycleLR(sgd, {.max_lr = {1}, .total_steps = 5, .pct_start = 2}); },
      "OneCycleLR: pct_start must be in [0, 1], got 2");
  expect<ArgumentError>(
      [&] { optim::OneCycleLR(adagrad, {.max_lr = {1}, .total_steps = 5}); },
      "OneCycleLR: the optimizer has neither momentum nor betas: cycle_momentum must be false");
  expect<ArgumentError>([&] { optim::ReduceLROnPlateau(sgd, {.factor = 1}); },
                        "ReduceLROnPlateau: factor must be in [0, 1), got 1");
  optim::OneCycleLR one_cycle(sgd, {.max_lr = {1}, .total_steps = 2});
  one_cycle.step();
  one_cycle.step();
  expect<ArgumentError>([&] { one_cycle.step(); }, "OneCycleLR: all of its 2 steps were made");
  EXPECT_EQ(one_cycle.last_epoch(), 2);
  optim::StepLR grown(sgd, {.step_size = 1});
  sgd.add_param_group({.parameters = {zeros({2}, {.requires_grad = true})}});
  expect<ArgumentError>([&] { grown.step(); },
                        "StepLR: the optimizer has 3 groups, the scheduler 2");
  EXPECT_EQ(grown.last_epoch(), 0);
}

TEST(OptimErrors, SchedulersListAllThatDoesNotFit) {
  optim::SGD sgd({zeros({2}, {.requires_grad = true})}, {.lr = 0.5});
  optim::ReduceLROnPlateau scheduler(sgd);
  errors::expect<ArgumentError>(
      [&] {
        scheduler.load_state_dict({{"last_epoch", scalar(1.5)},
                                   {"base_lrs", ones({2})},
                                   {"last_lr", full({1}, -1)},
                                   {"best", ones({1})},
                                   {"num_bad_epochs", scalar(1)},
                                   {"gamma", scalar(1)}});
      },
      "ReduceLROnPlateau: the state dict does not fit the scheduler\n"
      "  wrong value: last_epoch must be a whole number from 0 to 2^53, got 1.5\n"
      "  wrong shape: base_lrs is [1] in the scheduler, [2] in the state dict\n"
      "  wrong value: last_lr must be 0 or more and finite, got -1\n"
      "  wrong shape: best is [] in the scheduler, [1] in the state dict\n"
      "  missing: cooldown_counter []\n"
      "  unexpected: gamma []");
  EXPECT_EQ(scheduler.last_epoch(), 0);
  EXPECT_EQ(sgd.lr(), 0.5);
  EXPECT_EQ(scheduler.state_dict().at("num_bad_epochs").item(), 0);
}

}  // namespace
}  // namespace volta
