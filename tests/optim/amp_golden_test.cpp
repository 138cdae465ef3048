// Mixed precision against PyTorch: training under autocast, GradScaler's sequences, clipping
// (tests/golden/amp.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

const StateDict& golden_values() {
  static const StateDict values =
      load(paths::golden_dir() + "/amp.safetensors", {.device = test_device()});
  return values;
}
const Tensor& golden_tensor(const std::string& name) { return golden_values().at(name); }

std::vector<double> values_of(const Tensor& tensor) { return tensor.to_vector<double>(); }

void expect_close(const Tensor& tensor, const std::string& name, double tolerance) {
  const std::vector<double> actual = values_of(tensor), expected = values_of(golden_tensor(name));
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance * largest) << name << " at " << i;
}

using MakeOptimizer =
    std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>& parameters)>;

const std::vector<std::string> kNames{"w1", "b1", "scale", "shift", "w2", "b2"};

// bf16 has eight bits, so results that differ in the last one differ by 2^-8.
void expect_training(const std::string& name, const MakeOptimizer& make, double after_tolerance) {
  std::vector<Tensor> p;
  for (const std::string& key : kNames)
    p.push_back(golden_tensor(name + "/before/" + key).clone().detach().set_requires_grad());
  const Tensor& x = golden_tensor(name + "/x");
  const Tensor& labels = golden_tensor(name + "/labels");
  const auto optimizer = make(p);
  const std::vector<double> losses = values_of(golden_tensor(name + "/losses"));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Autocast amp(DType::bf16);
    optimizer->zero_grad();
    const Tensor h = gelu(linear(x, p[0], p[1]));
    EXPECT_EQ(h.dtype(), DType::bf16);
    const Tensor logits = linear(layer_norm(h, {24}, p[2], p[3]), p[4], p[5]);
    EXPECT_EQ(logits.dtype(), DType::bf16);
    const Tensor loss = cross_entropy(logits, labels);
    EXPECT_EQ(loss.dtype(), DType::f32);
    loss.backward();
    EXPECT_NEAR(loss.item(), losses[step], 4e-3 * losses[step]) << "step " << step;
    for (std::size_t i = 0; i < p.size(); ++i)
      expect_close(p[i].grad(), name + "/grad" + std::to_string(step) + "/" + kNames[i], 2e-2);
    optimizer->step();
  }
  for (std::size_t i = 0; i < p.size(); ++i)
    expect_close(p[i].detach(), name + "/after/" + kNames[i], after_tolerance);
}

TEST(GoldenAmp, TrainingWithSgd) {
  expect_training(
      "train_sgd",
      [](const std::vector<Tensor>& p) {
        return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
      },
      5e-3);
}
// A small gradient that is rounded differently moves its element by up to a step of 0.01.
TEST(GoldenAmp, TrainingWithAdam) {
  expect_training(
      "train_adam",
      [](const std::vector<Tensor>& p) {
        return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.01});
      },
      2e-2);
}

void expect_scaling(const std::string& name, const MakeOptimizer& make) {
  const Tensor p = golden_tensor(name + "/before").clone().detach().set_requires_grad();
  const Tensor& gradients = golden_tensor(name + "/gradients");
  const std::vector<double> scales = values_of(golden_tensor(name + "/scales"));
  const std::vector<std::int64_t> trackers =
      golden_tensor(name + "/trackers").to_vector<std::int64_t>();
  const std::vector<double> expected = values_of(golden_tensor(name + "/values"));
  const auto optimizer = make({p});
  GradScaler scaler({.init_scale = 1024, .growth_interval = 3});
  for (std::size_t step = 0; step < scales.size(); ++step) {
    SCOPED_TRACE(name + " step " + std::to_string(step));
    const std::vector<double> before = values_of(p);
    const StateDict state = optimizer->state_dict();
    const Tensor g = gradients.narrow(0, static_cast<std::int64_t>(step), 1).reshape({5});
    const std::vector<double> given = values_of(g);
    const bool bad =
        !std::all_of(given.begin(), given.end(), [](double v) { return std::isfinite(v); });
    optimizer->zero_grad();
    scaler.scale((p * g).sum()).backward();
    scaler.step(*optimizer);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), scales[step]);
    EXPECT_EQ(scaler.state_dict().at("growth_tracker").item<std::int32_t>(), trackers[step]);
    const std::vector<double> now = values_of(p);
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(now[i], expected[step * 5 + i], 2e-6) << "element " << i;
    if (!bad) continue;
    EXPECT_EQ(now, before);
    const StateDict after = optimizer->state_dict();
    EXPECT_EQ(after.size(), state.size());
    for (const auto& [key, value] : state)
      EXPECT_EQ(values_of(after.at(key)), values_of(value)) << key;
  }
}

TEST(GoldenAmp, ScalingSgd) {
  expect_scaling("scale_sgd", [](const std::vector<Tensor>& p) {
    return std::make_unique<optim::SGD>(
        p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  });
}
TEST(GoldenAmp, ScalingDampenedSgd) {
  expect_scaling("scale_dampened", [](const std::vector<Tensor>& p) {
    return std::make_unique<optim::SGD>(
        p, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  });
}
TEST(GoldenAmp, ScalingAdam) {
  expect_scaling("scale_adam", [](const std::vector<Tensor>& p) {
    return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 0.05});
  });
}
TEST(GoldenAmp, ScalingAdamW) {
  expect_scaling("scale_adamw", [](const std::vector<Tensor>& p) {
    return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.05, .weight_decay = 0.1});
  });
}

// One scale, one norm and two optimizers; infinite gradients of either optimizer.
TEST(GoldenAmp, ScalingTwoOptimizersWithClipping) {
  if (test_device().type() == DeviceType::opencl)
    GTEST_SKIP() << "compiling its kernels takes longer than they tell";
  const std::string name = "scale_pair";
  std::vector<Tensor> p, gradients;
  std::vector<std::vector<double>> expected;
  for (const char* which : {"0", "1"}) {
    p.push_back(golden_tensor(name + "/before" + which).clone().detach().set_requires_grad());
    gradients.push_back(golden_tensor(name + "/gradients" + which));
    expected.push_back(values_of(golden_tensor(name + "/values" + which)));
  }
  const std::vector<double> scales = values_of(golden_tensor(name + "/scales"));
  const std::vector<double> norms = values_of(golden_tensor(name + "/norms"));
  const std::vector<std::int64_t> trackers =
      golden_tensor(name + "/trackers").to_vector<std::int64_t>();
  ASSERT_EQ(scales.size(), 10u);
  optim::SGD sgd({p[0]}, {.lr = 0.1, .momentum = 0.9});
  optim::Adam adam({p[1]}, {.lr = 0.05});
  GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  for (std::size_t step = 0; step < scales.size(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const auto at = static_cast<std::int64_t>(step);
    const auto weighted = [&](std::size_t i) {
      return (p[i] * gradients[i].narrow(0, at, 1).reshape({5})).sum();
    };
    sgd.zero_grad();
    adam.zero_grad();
    scaler.scale(weighted(0) + weighted(1)).backward();
    scaler.unscale_(sgd);
    scaler.unscale_(adam);
    const Tensor norm = nn::clip_grad_norm(p, 0.8);
    scaler.step(sgd);
    scaler.step(adam);
    scaler.update();
    if (std::isfinite(norms[step])) {
      EXPECT_NEAR(norm.item(), norms[step], 2e-6 * norms[step]);
    } else {
      EXPECT_EQ(norm.item(), norms[step]);
    }
    EXPECT_EQ(scaler.get_scale(), scales[step]);
    EXPECT_EQ(scaler.state_dict().at("growth_tracker").item<std::int32_t>(), trackers[step]);
    for (std::size_t which = 0; which < 2; ++which) {
      const std::vector<double> now = values_of(p[which]);
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_NEAR(now[i], expected[which][step * 5 + i], 2e-6) << which << " at " << i;
    }
  }
}

TEST(GoldenAmp, Clipping) {
  for (int number = 0; number < 5; ++number) {
    const std::string name = "clip" + std::to_string(number);
    std::vector<Tensor> parameters;
    for (int i = 0; i < 4; ++i) {
      const Tensor& gradient = golden_tensor(name + "/grad" + std::to_string(i));
      parameters.push_back(zeros_like(gradient).set_requires_grad());
      parameters.back().set_grad(gradient.clone());
    }
    const std::vector<double> arguments = golden_tensor(name + "/arguments").to_vector<double>();
    const Tensor norm = nn::clip_grad_norm(parameters, arguments[0], {.norm_type = arguments[1]});
    EXPECT_TRUE(norm.is_pending());
    EXPECT_NEAR(norm.item(), golden_tensor(name + "/norm").item(), 2e-6 * norm.item());
    for (int i = 0; i < 4; ++i)
      expect_close(parameters[static_cast<std::size_t>(i)].grad(),
                   name + "/clipped" + std::to_string(i), 1e-6);
  }
}

}  // namespace
}  // namespace volta
