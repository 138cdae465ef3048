// GradScaler and its optimizers: several of them, user-defined ones, failing steps, destroyed
// optimizers, and optimizers without gradients.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "optim/grad_scaler_training.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using scaling::kInf;
using scaling::on_device;
using scaling::Training;
using scaling::values_of;

// A user's optimizer that does not support scaling, so that the decision is made on the host; or
// one that claims to support it and has failing steps.
class Plain final : public optim::Optimizer {
 public:
  explicit Plain(std::vector<Tensor> parameters, bool on_device = false)
      : Optimizer("Plain", std::move(parameters), 0.5, {}), on_device_(on_device) {}
  bool fails = false;

 protected:
  void update(const optim::ParamGroup& group, std::span<const Tensor> parameters, States&,
              SourceLocation) override {
    if (fails) throw ArgumentError("Plain: not now");
    for (Tensor parameter : parameters) {
      const Tensor& inverse = scaled_step().inverse_scale;
      parameter -= (inverse.defined() ? parameter.grad() * inverse : parameter.grad()) * group.lr();
    }
  }
  bool skips_on_device() const override { return on_device_; }

 private:
  bool on_device_;
};

TEST(GradScaler, SeveralOptimizersOneScale) {
  Training good(1), bad(1);
  bad.set_finite(false);
  optim::SGD one(good.parameters, {.lr = 0.5}), other(bad.parameters, {.lr = 0.5});
  const std::vector<double> before_good = values_of(good.parameters[0]),
                            before_bad = values_of(bad.parameters[0]);
  GradScaler scaler({.init_scale = 16});
  scaler.scale(good.loss()).backward();
  scaler.scale(bad.loss()).backward();
  scaler.step(one);
  scaler.step(other);
  scaler.update();
  EXPECT_NE(values_of(good.parameters[0]), before_good);
  EXPECT_EQ(values_of(bad.parameters[0]), before_bad);
  EXPECT_EQ(scaler.get_scale(), 8) << "one of them is enough";
}

TEST(GradScaler, AStepThatFailedMayBeMadeAgain) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the order of calls is the host's";
  for (const bool on_device : {false, true}) {
    Training expected(1), retried(1);
    optim::SGD sgd(expected.parameters, {.lr = 0.5});
    Plain plain(retried.parameters, on_device);
    GradScaler first, second;
    expected.iterate(first, sgd);
    second.scale(retried.loss()).backward();
    plain.fails = true;
    for (int i = 0; i < 2; ++i)
      errors::expect<ArgumentError>([&] { second.step(plain); }, "Plain: not now");
    plain.fails = false;
    second.step(plain);
    errors::expect<ArgumentError>(
        [&] { second.step(plain); },
        "GradScaler: step() was called twice for an optimizer since the last update()");
    second.update();
    for (std::size_t i = 0; i < expected.parameters.size(); ++i)
      EXPECT_EQ(values_of(retried.parameters[i]), values_of(expected.parameters[i])) << i;
  }
}

// A new optimizer at the address of a destroyed one is a different one, and the results of the old
// one are not lost.
TEST(GradScaler, OptimizersEnd) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the order of calls is the host's";
  Training bad(1), good(1);
  bad.set_finite(false);
  GradScaler scaler({.init_scale = 16});
  std::optional<optim::SGD> optimizer;
  optimizer.emplace(bad.parameters, optim::SGDOptions{.lr = 0.5});
  const optim::Optimizer* const address = &*optimizer;
  scaler.scale(bad.loss()).backward();
  scaler.step(*optimizer);
  optimizer.reset();
  optimizer.emplace(good.parameters, optim::SGDOptions{.lr = 0.5});
  ASSERT_EQ(&*optimizer, address);
  scaler.scale(good.loss()).backward();
  const std::vector<double> before = values_of(good.parameters[0]);
  scaler.unscale_(*optimizer);
  scaler.step(*optimizer);
  EXPECT_NE(values_of(good.parameters[0]), before);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 8);
}

TEST(GradScaler, OptimizersThatEndedAreForgotten) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "nothing of it is the device's";
  const Tensor p = ones({2}, on_device(true)).eval();
  GradScaler scaler({.init_scale = 16});
  std::uint64_t first = 0;
  for (int i = 0; i < 1000; ++i) {
    optim::SGD optimizer({p}, {.lr = 0.5});
    optimizer.zero_grad();
    scaler.scale((p * (i == 500 ? kInf : 1.0f)).sum()).backward();
    scaler.step(optimizer);
    submit(test_device());
    if (i == 9) first = memory_stats(test_device()).in_use;
  }
  EXPECT_LE(memory_stats(test_device()).in_use, first + 4096);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 8);
}

TEST(GradScaler, OptimizersOfUsers) {
  Training one(1), other(1);
  Plain plain(one.parameters);
  optim::SGD sgd(other.parameters, {.lr = 0.5});
  GradScaler first, second;
  for (const bool finite : {true, false, true}) {
    one.set_finite(finite);
    other.set_finite(finite);
    one.iterate(first, plain);
    other.iterate(second, sgd);
    for (std::size_t i = 0; i < one.parameters.size(); ++i)
      EXPECT_EQ(values_of(one.parameters[i]), values_of(other.parameters[i])) << i;
    EXPECT_EQ(first.get_scale(), second.get_scale());
  }
}

// As in PyTorch, without gradients there is nothing to unscale, and step() fails.
TEST(GradScaler, UnscalingNoGradientsDoesNothing) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the order of calls is the host's";
  Training training(1), none(1);
  optim::SGD optimizer(training.parameters, {.lr = 0.5}), idle(none.parameters, {.lr = 0.5});
  GradScaler scaler({.init_scale = 16, .growth_interval = 1});
  const Tensor late = scaler.scale(none.loss());
  scaler.scale(training.loss()).backward();
  scaler.unscale_(optimizer);
  scaler.unscale_(idle);
  errors::expect<ArgumentError>(
      [&] { scaler.unscale_(idle); },
      "GradScaler: unscale_() was called twice for an optimizer since the last update()");
  const char* const no_checks =
      "GradScaler: step(): no inf checks were recorded for this optimizer: it had no gradients";
  errors::expect<ArgumentError>([&] { scaler.step(idle); }, no_checks);
  // Gradients computed later are scaled and were not checked.
  late.backward();
  errors::expect<ArgumentError>([&] { scaler.step(idle); }, no_checks);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 32) << "the other one's gradients decide";
  idle.zero_grad();
  none.iterate(scaler, idle);
}

}  // namespace
}  // namespace volta
