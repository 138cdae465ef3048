// GradScaler: asynchrony, gradients, state, kernels. Its sequences of scales are compared with
// PyTorch's in amp_golden_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "optim/grad_scaler_training.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using scaling::counted;
using scaling::on_device;
using scaling::Training;
using scaling::values_of;

TEST(GradScaler, NothingWaitsAndNothingIsBuiltFromTheThirdStepOn) {
  Training training(2);
  optim::Adam optimizer(training.parameters);
  GradScaler scaler;
  for (int i = 0; i < 2; ++i) training.iterate(scaler, optimizer);
  const Counters later = counted([&] {
    for (int i = 0; i < 4; ++i) training.iterate(scaler, optimizer);
  });
  EXPECT_EQ(later.submits, 4u) << "one plan a step";
  EXPECT_EQ(later.plans_built, 0u);
  EXPECT_EQ(later.compilations, 0u);
  EXPECT_EQ(later.transfers, 0u);
  EXPECT_EQ(later.allocations, 0u);
  training.set_finite(false);
  const Counters bad = counted([&] {
    for (int i = 0; i < 3; ++i) training.iterate(scaler, optimizer);
  });
  EXPECT_EQ(bad.plans_built, 0u);
  EXPECT_EQ(bad.compilations, 0u);
  EXPECT_EQ(bad.allocations, 0u);
  EXPECT_EQ(scaler.get_scale(), 8192);
}

// Nothing waits in the whole recipe either: two optimizers, unscaled and clipped.
TEST(GradScaler, NothingWaitsWithTwoOptimizersAndClipping) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  Training one(1), other(1);
  optim::Adam adam(one.parameters);
  optim::SGD sgd(other.parameters, {.lr = 0.1, .momentum = 0.9});
  std::vector<Tensor> all = one.parameters;
  all.insert(all.end(), other.parameters.begin(), other.parameters.end());
  GradScaler scaler({.growth_interval = 2});
  const auto iterate = [&] {
    adam.zero_grad();
    sgd.zero_grad();
    scaler.scale(one.loss() + other.loss()).backward();
    scaler.unscale_(adam);
    scaler.unscale_(sgd);
    nn::clip_grad_norm(all, 0.01);
    scaler.step(adam);
    scaler.step(sgd);
    scaler.update();
  };
  for (int i = 0; i < 3; ++i) iterate();
  const auto expect_replayed = [&](const char* what) {
    const Counters later = counted([&] {
      for (int i = 0; i < 4; ++i) iterate();
    });
    EXPECT_EQ(later.submits, 8u) << what << ": one plan a step of an optimizer";
    EXPECT_EQ(later.plans_built, 0u) << what;
    EXPECT_EQ(later.compilations, 0u) << what;
    EXPECT_EQ(later.transfers, 0u) << what;
    EXPECT_EQ(later.bytes_to_host, 0u) << what;
    EXPECT_EQ(later.allocations, 0u) << what;
  };
  expect_replayed("growing");
  other.set_finite(false);
  iterate();
  expect_replayed("backing off");
  EXPECT_EQ(scaler.get_scale(), 65536 * 8.0 / 32);
}

TEST(GradScaler, GivesTheGradientsAndStepsOfAPlainRun) {
  Training plain(2), scaled(2);
  optim::Adam one(plain.parameters, {.lr = 0.01}), other(scaled.parameters, {.lr = 0.01});
  GradScaler scaler;
  for (int i = 0; i < 4; ++i) {
    one.zero_grad();
    plain.loss().backward();
    one.step();
    scaled.iterate(scaler, other);
  }
  // Scales are powers of two, so nothing is rounded differently.
  for (std::size_t i = 0; i < plain.parameters.size(); ++i)
    EXPECT_EQ(values_of(scaled.parameters[i]), values_of(plain.parameters[i])) << i;
}

TEST(GradScaler, ASkippedStepChangesNothing) {
  for (const bool unscale : {false, true}) {
    Training training(1);
    optim::AdamW optimizer(training.parameters, {.lr = 0.1});
    GradScaler scaler;
    const auto iterate = [&] {
      optimizer.zero_grad();
      scaler.scale(training.loss()).backward();
      if (unscale) {
        scaler.unscale_(optimizer);
        nn::clip_grad_norm(training.parameters, 1);
      }
      scaler.step(optimizer);
      scaler.update();
    };
    iterate();
    iterate();
    std::vector<std::vector<double>> before;
    const StateDict state = optimizer.state_dict();
    for (const Tensor& p : training.parameters) before.push_back(values_of(p));
    for (const auto& [name, value] : state) before.push_back(values_of(value));
    training.set_finite(false);
    iterate();
    std::size_t next = 0;
    for (const Tensor& p : training.parameters) EXPECT_EQ(values_of(p), before[next++]);
    for (const auto& [name, value] : optimizer.state_dict())
      EXPECT_EQ(values_of(value), before[next++]) << name;
    EXPECT_EQ(scaler.get_scale(), 32768);
    EXPECT_EQ(optimizer.state_dict().at("0.step").item(), 2);
    training.set_finite(true);
    iterate();
    EXPECT_EQ(optimizer.state_dict().at("0.step").item(), 3);
  }
}

TEST(GradScaler, UnscaledGradientsCanBeClipped) {
  Training plain(1), scaled(1);
  optim::SGD one(plain.parameters, {.lr = 0.5}), other(scaled.parameters, {.lr = 0.5});
  GradScaler scaler({.init_scale = 512});
  one.zero_grad();
  plain.loss().backward();
  const Tensor norm = nn::clip_grad_norm(plain.parameters, 0.001);
  one.step();
  scaler.scale(scaled.loss()).backward();
  scaler.unscale_(other);
  const Tensor again = nn::clip_grad_norm(scaled.parameters, 0.001);
  scaler.step(other);
  scaler.update();
  EXPECT_EQ(again.item(), norm.item());
  EXPECT_GT(norm.item(), 0.001);
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    EXPECT_EQ(values_of(scaled.parameters[i]), values_of(plain.parameters[i])) << i;
    EXPECT_EQ(values_of(scaled.parameters[i].grad()), values_of(plain.parameters[i].grad())) << i;
  }
}

TEST(GradScaler, HalvesThatWouldVanish) {
  // In f16 a gradient of 1e-8 is 0.
  const auto gradient = [](bool scaled) {
    const Tensor w = full({4, 4}, 0.5, on_device(true));
    optim::SGD optimizer({w}, {.lr = 1});
    GradScaler scaler({.enabled = scaled});
    Tensor loss;
    {
      const Autocast amp(DType::f16);
      loss = linear(ones({1, 4}, on_device()), w).sum() * 1e-8;
    }
    scaler.scale(loss).backward();
    scaler.unscale_(optimizer);
    return values_of(w.grad())[0];
  };
  EXPECT_EQ(gradient(false), 0);
  EXPECT_NEAR(gradient(true), 1e-8, 1e-11);
}

TEST(GradScaler, Disabled) {
  Training plain(1), disabled(1);
  optim::SGD one(plain.parameters, {.lr = 0.5}), other(disabled.parameters, {.lr = 0.5});
  GradScaler scaler({.enabled = false});
  EXPECT_FALSE(scaler.is_enabled());
  plain.loss().backward();
  one.step();
  disabled.iterate(scaler, other);
  EXPECT_EQ(values_of(plain.parameters[0]), values_of(disabled.parameters[0]));
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(scaler.state_dict().empty());
}

TEST(GradScaler, StateTravels) {
  Training training(1);
  optim::SGD optimizer(training.parameters, {.lr = 0.1});
  GradScaler scaler({.init_scale = 64, .growth_factor = 4, .growth_interval = 3});
  training.iterate(scaler, optimizer);
  training.iterate(scaler, optimizer);
  GradScaler fresh, used;
  used.scale(training.loss());
  for (GradScaler* loaded : {&fresh, &used}) {
    loaded->load_state_dict(scaler.state_dict());
    EXPECT_EQ(loaded->get_scale(), 64);
    training.iterate(*loaded, optimizer);
    EXPECT_EQ(loaded->get_scale(), 256) << "the third step in a row";
    EXPECT_EQ(loaded->state_dict().at("growth_tracker").item(), 0);
  }
  used.update(3.0);
  EXPECT_EQ(used.get_scale(), 3);
}

TEST(GradScaler, AScaleThatWouldBeInfiniteStays) {
  Training training(1);
  optim::SGD optimizer(training.parameters, {.lr = 0});
  GradScaler scaler({.init_scale = 1.5e38, .growth_factor = 4, .growth_interval = 1});
  optimizer.zero_grad();
  (scaler.scale(training.loss()) * 1e-38).backward();
  scaler.step(optimizer);
  scaler.update();
  EXPECT_FLOAT_EQ(static_cast<float>(scaler.get_scale()), 1.5e38f);
}

TEST(GradScaler, AScaleTooSmallToDivideByStays) {
  Training training(1);
  training.set_finite(false);
  optim::SGD optimizer(training.parameters, {.lr = 0});
  GradScaler scaler({.init_scale = 0x1p-124, .backoff_factor = 0.25});
  for (const double expected : {0x1p-126, 0x1p-126}) {
    training.iterate(scaler, optimizer);
    EXPECT_EQ(scaler.get_scale(), expected);
  }
}

// The kernels of a step: those of a plain step, one pass over the gradients, and the combination of
// the results. More layers take no more kernels.
TEST(GradScalerCounts, KernelsOfAnAdamStep) {
  const auto launches = [](int layers, bool scaled) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < layers; ++i) parameters.push_back(full({64, 64}, 0.1, on_device(true)));
    optim::Adam optimizer(parameters);
    GradScaler scaler({.enabled = scaled});
    const Tensor loss = ones({}, on_device()).eval();
    scaler.scale(loss);
    const auto step = [&] {
      for (const Tensor& p : parameters) p.set_grad(full({64, 64}, 0.5, on_device()).eval());
      return counted([&] { scaler.step(optimizer); }).launches;
    };
    step();
    if (scaled) scaler.update();
    step();
    if (scaled) scaler.update();
    return step();
  };
  const std::uint64_t plain = launches(3, false);
  EXPECT_EQ(plain, 1u);
  EXPECT_EQ(launches(50, false), plain);
  const std::uint64_t few = launches(3, true), many = launches(50, true);
  std::printf("kernels of an Adam step: %d, with a scaler %d (3 parameters) and %d (50)\n",
              static_cast<int>(plain), static_cast<int>(few), static_cast<int>(many));
  EXPECT_LE(few, plain + 3);
  EXPECT_LE(many, plain + 4);
}

}  // namespace
}  // namespace volta
