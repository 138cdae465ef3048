// Models on two devices, by mistake or on purpose: forward, backward, optimizers.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

Tensor values(const Shape& shape, Device device = Device::cpu()) {
  std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i % 13) / 13.0f - 0.5f;
  return from_vector(numbers, shape, {.device = device});
}

class TwoDevices : public testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
    set_log_handler([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) heard_.emplace_back(text);
    });
  }
  void TearDown() override { set_log_handler({}); }
  std::vector<std::string> heard_;
};

nn::Sequential network() {
  manual_seed(5);
  return nn::Sequential({nn::Linear(12, 16), nn::Tanh(), nn::Linear(16, 16), nn::BatchNorm1d(16),
                         nn::ReLU(), nn::Linear(16, 3)});
}

template <class Optimizer, class Options>
std::vector<double> train(nn::Sequential& model, Device batch, const Options& options, int steps) {
  Optimizer optimizer(model.parameters(), options);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss =
        mse_loss(model(values({8, 12}, batch)), values({8, 3}, batch) + static_cast<float>(i));
    loss.backward();
    nn::clip_grad_norm(model.parameters(), 1.0);
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

// One layer was not moved: the results equal those on one device, and all tensors stay where they
// were.
template <class Optimizer, class Options>
void expect_same(const Options& options, MixedDevices policy) {
  nn::Sequential whole = network();
  whole.to(test_device());
  const std::vector<double> wanted = train<Optimizer>(whole, test_device(), options, 4);
  nn::Sequential model = network();
  model.to(test_device());
  model[2].to(Device::cpu());
  const ExecutionContext context({.mixed_devices = policy});
  EXPECT_THROW(static_cast<void>(model.device()), DeviceError);
  const std::vector<double> losses = train<Optimizer>(model, test_device(), options, 4);
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], wanted[i], 1e-4 * (1 + wanted[i])) << i;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const Device home = name.starts_with("2.") ? Device::cpu() : test_device();
    EXPECT_EQ(parameter.device(), home) << name;
    EXPECT_EQ(parameter.grad().device(), home) << name;
  }
}

TEST_F(TwoDevices, AStrayLayerTrainsAsTheOthers) {
  expect_same<optim::Adam>(optim::AdamOptions{.lr = 1e-2}, MixedDevices::to_gpu);
  EXPECT_EQ(heard_.size(), 1u) << "once for the place that calls the model";
  expect_same<optim::SGD>(optim::SGDOptions{.lr = 1e-2, .momentum = 0.9}, MixedDevices::to_gpu);
  if (!thorough()) return;
  expect_same<optim::RMSprop>(optim::RMSpropOptions{.lr = 1e-3}, MixedDevices::to_gpu);
  expect_same<optim::Lion>(optim::LionOptions{.lr = 1e-3}, MixedDevices::to_gpu);
}

TEST_F(TwoDevices, AStrayLayerOnTheCpuByPolicy) {
  expect_same<optim::Adam>(optim::AdamOptions{.lr = 1e-2}, MixedDevices::to_cpu);
}

TEST_F(TwoDevices, AStrayIsNamedWhereThatIsAnError) {
  nn::Sequential model = network();
  model.to(test_device());
  model[2].to(Device::cpu());
  const Tensor x = values({8, 12}, test_device());
  const ExecutionContext strict({.mixed_devices = MixedDevices::error});
  try {
    model(x);
    FAIL() << "passed";
  } catch (const DeviceError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("linear: operands on " + to_string(test_device()) + " [8, 16]"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find(" and cpu [16, 16]"), std::string::npos) << message;
    EXPECT_NE(message.find("mixed_devices_test.cpp"), std::string::npos) << message;
  }
  try {
    model.device();
    FAIL() << "passed";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("2.weight (cpu)"), std::string::npos) << error.what();
  }
}

// The message names the source locations of both operands if they are known.
TEST_F(TwoDevices, ErrorsSayWhereTheOperandsWereMade) {
  const int line = __LINE__ + 1;
  const Tensor a = from_vector(std::vector<float>{1, 2}, {2}),
               b = from_vector(std::vector<float>{1, 2}, {2}, {.device = test_device()});
  const ExecutionContext strict({.mixed_devices = MixedDevices::error});
  try {
    a + b;
    FAIL() << "passed";
  } catch (const DeviceError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("add: operands on cpu [2], made at mixed_devices_test.cpp:" +
                           std::to_string(line) + " and " + to_string(test_device()) +
                           " [2], made at mixed_devices_test.cpp:" + std::to_string(line + 1)),
              std::string::npos)
        << message;
  }
}

// A host constant that every step uses is moved once.
TEST_F(TwoDevices, AValueMovesOnce) {
  const Tensor mask = values({64, 64}), x = values({64, 64}, test_device());
  reset_counters();
  for (int i = 0; i < 5; ++i) (x * mask + static_cast<float>(i)).eval();
  synchronize(test_device());
  EXPECT_EQ(counters().transfers, 1u);
  EXPECT_EQ(counters().bytes_to_device, 64u * 64 * 4);
}

// Gradients of both sides return to their devices, through a chain that crosses twice.
TEST_F(TwoDevices, GradientsCrossAndComeHome) {
  Tensor here = values({6}), there = values({6}, test_device());
  here.set_requires_grad();
  there.set_requires_grad();
  const Tensor a = here * 2 + there;  // on the GPU
  const Tensor b = a.to(Device::cpu()) * here;
  const Tensor c = b.to(test_device()) * there;
  c.sum().backward();
  EXPECT_EQ(here.grad().device(), Device::cpu());
  EXPECT_EQ(there.grad().device(), test_device());
  const auto h = here.to_vector<float>(), t = there.to_vector<float>();
  const auto gh = here.grad().to_vector<float>(), gt = there.grad().to_vector<float>();
  for (std::size_t i = 0; i < h.size(); ++i) {
    // (2h + t) h t
    EXPECT_NEAR(gh[i], (4 * h[i] + t[i]) * t[i], 1e-5);
    EXPECT_NEAR(gt[i], (2 * h[i] + 2 * t[i]) * h[i], 1e-5);
  }
}

}  // namespace
}  // namespace volta
