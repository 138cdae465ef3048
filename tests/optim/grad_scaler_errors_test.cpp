// GradScaler: wrong orders of calls, and invalid options, gradients and state dicts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "optim/grad_scaler_training.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using scaling::Training;

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
  refused([&] { scaler.step(optimizer); },
          "GradScaler: step(): no inf checks were recorded for this optimizer: it had no "
          "gradients");
  refused([&] { scaler.update(); },
          "GradScaler: update() without a step() or unscale_() of gradients since the last one");
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
          "GradScaler: new_scale must be positive, finite and normal in f32, got -1");
  refused([&] { scaler.update(1e39); },
          "GradScaler: new_scale must be positive, finite and normal in f32, got 1e+39");
  EXPECT_EQ(scaler.get_scale(), 65536);
  training.iterate(scaler, optimizer);
}

TEST(GradScalerErrors, Options) {
  const auto refused = [](GradScalerOptions options, const std::string& message) {
    errors::expect<ArgumentError>([&] { GradScaler scaler(options); }, message);
  };
  const auto told = [](const char* what, double value) { return fmt::format("{}{}", what, value); };
  // Values that are positive and finite, but not in f32; 1e-40 has an infinite reciprocal there.
  for (const double scale : {0.0, -1.0, 1e39, 1e-50, 1e-40, HUGE_VAL, std::nan("")}) {
    refused({.init_scale = scale},
            told("GradScaler: init_scale must be positive, finite and normal in f32, got ", scale));
  }
  for (const double factor : {1.0, 0.5, 1 + 1e-9, 1e39, HUGE_VAL, std::nan("")}) {
    refused(
        {.growth_factor = factor},
        told("GradScaler: growth_factor must be greater than 1 and finite in f32, got ", factor));
  }
  for (const double factor : {0.0, -0.5, 1.0, 1.5, 1 - 1e-9, 1e-50, std::nan("")}) {
    refused({.backoff_factor = factor},
            told("GradScaler: backoff_factor must be between 0 and 1 in f32, got ", factor));
  }
  refused({.growth_interval = 0},
          "GradScaler: growth_interval must be whole, positive and below 2^31, got 0");
  refused({.growth_interval = std::int64_t{1} << 31},
          "GradScaler: growth_interval must be whole, positive and below 2^31, got 2147483648");
  const GradScaler widest({.init_scale = 3.4028234e38,
                           .growth_factor = 3.4028234e38,
                           .backoff_factor = 1e-37,
                           .growth_interval = 2147483647});
  EXPECT_EQ(widest.get_scale(), 3.4028234e38);
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

StateDict state_of(double scale, double growth_factor, double backoff_factor,
                   double growth_interval, double growth_tracker) {
  StateDict state;
  const auto number = [&](const char* name, double value) {
    state.add(name, scalar(value, {.dtype = DType::f64}));
  };
  number("scale", scale);
  number("growth_factor", growth_factor);
  number("backoff_factor", backoff_factor);
  number("growth_interval", growth_interval);
  number("growth_tracker", growth_tracker);
  return state;
}

// One error lists everything, and nothing has changed, before and after the first loss.
TEST(GradScalerErrors, StateDicts) {
  StateDict wrong;
  wrong.add("scale", ones({2}));
  wrong.add("growth_factor", scalar(2.0));
  wrong.add("growth_interval", scalar(2));
  wrong.add("growth_tracker", scalar(0));
  wrong.add("more", ones({3}));
  const double inf = HUGE_VAL, nan = std::nan("");
  const std::string begin = "GradScaler: the state dict does not fit the scaler";
  const std::vector<std::pair<StateDict, std::string>> cases{
      {wrong,
       "\n  wrong shape: scale is a number, [2] in the state dict\n  missing: backoff_factor\n  "
       "unexpected: more [3]"},
      {state_of(1e39, inf, 1, nan, 4e9),
       "\n  wrong value: scale must be positive, finite and normal in f32, got 1e+39"
       "\n  wrong value: growth_factor must be greater than 1 and finite in f32, got inf"
       "\n  wrong value: backoff_factor must be between 0 and 1 in f32, got 1"
       "\n  wrong value: growth_interval must be whole, positive and below 2^31, got nan"
       "\n  wrong value: growth_tracker must be whole, zero or more and below 2^31 - 1, got "
       "4000000000"},
      {state_of(2, 4, 0.25, 2.5, -1),
       "\n  wrong value: growth_interval must be whole, positive and below 2^31, got 2.5"
       "\n  wrong value: growth_tracker must be whole, zero or more and below 2^31 - 1, got -1"},
      {state_of(2, 4, 0.25, 5, 0.5),
       "\n  wrong value: growth_tracker must be whole, zero or more and below 2^31 - 1, got 0.5"},
  };
  Training training(1);
  GradScaler fresh, used;
  used.scale(training.loss());
  for (GradScaler* scaler : {&fresh, &used}) {
    for (const auto& [state, problems] : cases) {
      errors::expect<ArgumentError>([&, &given = state] { scaler->load_state_dict(given); },
                                    begin + problems);
      const StateDict now = scaler->state_dict();
      EXPECT_EQ(now.at("scale").item(), 65536);
      EXPECT_EQ(now.at("growth_factor").item(), 2);
      EXPECT_EQ(now.at("backoff_factor").item(), 0.5);
      EXPECT_EQ(now.at("growth_interval").item(), 2000);
      EXPECT_EQ(now.at("growth_tracker").item(), 0);
    }
    // The saved number of steps exceeds the interval, which was longer then: the next step is
    // enough.
    scaler->load_state_dict(state_of(64, 4, 0.25, 5, 2147483646));
    EXPECT_EQ(scaler->state_dict().at("growth_tracker").item(), 2147483646);
    optim::SGD optimizer(training.parameters, {.lr = 0.1});
    training.iterate(*scaler, optimizer);
    EXPECT_EQ(scaler->get_scale(), 256);
    EXPECT_EQ(scaler->state_dict().at("growth_tracker").item(), 0);
  }
}

}  // namespace
}  // namespace volta
