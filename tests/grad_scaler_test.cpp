// GradScaler: what it promises about the device, several optimizers, order of calls, state. Its
// sequences of scales are compared with PyTorch's in amp_golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "errors.h"
#include "test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TensorOptions on_device(bool requires_grad = false) {
  return {.device = test_device(), .requires_grad = requires_grad};
}

std::vector<double> values_of(const Tensor& tensor) { return tensor.to_vector<double>(); }

// A layer of which the test decides whether its gradients are finite.
struct Training {
  std::vector<Tensor> parameters;
  Tensor x = ones({4, 16}, on_device());
  Tensor factor;  // of the loss: infinite spoils every gradient

  explicit Training(int layers) {
    for (int i = 0; i < layers; ++i) {
      parameters.push_back(full({16, 16}, 0.05 + 0.001 * i, on_device(true)));
      parameters.push_back(full({16}, 0.01, on_device(true)));
    }
    x.eval();
    set_finite(true);
  }
  Tensor loss() const {
    Tensor h = x;
    for (std::size_t i = 0; i < parameters.size(); i += 2)
      h = tanh(linear(h, parameters[i], parameters[i + 1]));
    return h.mean() * factor;
  }
  void set_finite(bool finite) {
    factor = from_vector(std::vector<float>{finite ? 1.0f : kInf}, Shape{}, on_device());
  }
  void iterate(GradScaler& scaler, optim::Optimizer& optimizer) const {
    optimizer.zero_grad();
    scaler.scale(loss()).backward();
    scaler.step(optimizer);
    scaler.update();
  }
};

// Waits for nothing: that would evaluate what update() recorded.
template <class Action>
Counters counted(Action action) {
  const Counters before = counters();
  action();
  Counters delta = counters();
  delta.submits -= before.submits;
  delta.plans_built -= before.plans_built;
  delta.compilations -= before.compilations;
  delta.launches -= before.launches;
  delta.library_calls -= before.library_calls;
  delta.transfers -= before.transfers;
  delta.allocations -= before.allocations;
  return delta;
}

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
  // Scales are powers of two: nothing is rounded otherwise.
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

// An optimizer of a user's that knows nothing of scaling: the decision is made on the host.
class Plain final : public optim::Optimizer {
 public:
  explicit Plain(std::vector<Tensor> parameters)
      : Optimizer("Plain", std::move(parameters), 0.5, {}) {}

 protected:
  void update(std::span<const Tensor> parameters, States&, Place) override {
    for (Tensor parameter : parameters) parameter -= parameter.grad() * lr();
  }
};

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

// Kernels of a step: what the plain one has, one reading of the gradients, and the joining of what
// was found in them; not more for more layers.
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

TEST(GradScalerErrors, OrderOfCalls) {
  Training training(1);
  optim::SGD optimizer(training.parameters);
  GradScaler scaler;
  const auto refused = [](auto act, const char* message) {
    errors::expect<ArgumentError>(act, message);
  };
  refused([&] { scaler.step(optimizer); },
          "GradScaler: step() without a scaled loss: scale() was not called");
  refused([&] { scaler.unscale_(optimizer); },
          "GradScaler: unscale_() without a scaled loss: scale() was not called");
  refused([&] { scaler.update(); },
          "GradScaler: update() without a scaled loss: scale() was not called");
  refused([&] { scaler.scale(Tensor()); }, "GradScaler: the loss is not a tensor");
  const Tensor loss = scaler.scale(training.loss());
  refused([&] { scaler.step(optimizer); }, "GradScaler: step() of an optimizer without gradients");
  refused([&] { scaler.unscale_(optimizer); },
          "GradScaler: unscale_() of an optimizer without gradients");
  refused([&] { scaler.update(); },
          "GradScaler: update() without a step() or unscale_() since the last one");
  loss.backward();
  scaler.unscale_(optimizer);
  refused([&] { scaler.unscale_(optimizer); },
          "GradScaler: unscale_() was called twice for an optimizer since the last update()");
  scaler.step(optimizer);
  refused([&] { scaler.step(optimizer); },
          "GradScaler: step() was called twice for an optimizer since the last update()");
  refused([&] { scaler.unscale_(optimizer); },
          "GradScaler: unscale_() was called after step() of the optimizer");
  scaler.update();
  refused([&] { scaler.update(-1.0); },
          "GradScaler: new_scale must be positive and finite, got -1");
  training.iterate(scaler, optimizer);
}

TEST(GradScalerErrors, Options) {
  const auto refused = [](GradScalerOptions options, const char* message) {
    errors::expect<ArgumentError>([&] { GradScaler scaler(options); }, message);
  };
  refused({.init_scale = 0}, "GradScaler: init_scale must be positive and finite, got 0");
  refused({.growth_factor = 1}, "GradScaler: growth_factor must be greater than 1, got 1");
  refused({.backoff_factor = 1.5}, "GradScaler: backoff_factor must be between 0 and 1, got 1.5");
  refused({.growth_interval = 0}, "GradScaler: growth_interval must be positive, got 0");
}

TEST(GradScalerErrors, GradientsInF16) {
  const Tensor p = ones({2}, {.dtype = DType::f16, .device = test_device(), .requires_grad = true});
  optim::SGD optimizer({p});
  GradScaler scaler;
  scaler.scale(p.sum()).backward();
  errors::expect<DTypeError>([&] { scaler.unscale_(optimizer); },
                             "GradScaler: unscale_() needs gradients that can hold what is "
                             "unscaled, got f16: parameters stay f32 under Autocast");
}

TEST(GradScalerErrors, StateDicts) {
  GradScaler scaler;
  StateDict wrong;
  wrong.add("scale", ones({2}));
  wrong.add("growth_factor", scalar(2.0));
  wrong.add("growth_interval", scalar(2));
  wrong.add("growth_tracker", scalar(0));
  wrong.add("more", ones({3}));
  errors::expect<ArgumentError>(
      [&] { scaler.load_state_dict(wrong); },
      "GradScaler: the state dict does not fit the scaler\n  wrong shape: scale is a number, [2] "
      "in "
      "the state dict\n  missing: backoff_factor\n  unexpected: more [3]");
  EXPECT_EQ(scaler.get_scale(), 65536);
}

}  // namespace
}  // namespace volta
