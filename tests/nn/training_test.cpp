// Small trainings from start to end, with things that must and cannot be learned.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/test_device.h"
#include "volta/models.h"
#include "volta/volta.h"

namespace volta {
namespace {

TEST(Training, XorConvergesFromTenSeeds) {
  const TensorOptions here{.device = test_device()};
  const Tensor x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, here);
  const Tensor y = tensor({0, 1, 1, 0}, {4, 1}, here);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    manual_seed(seed);
    nn::Sequential model({nn::Linear(2, 8), nn::Tanh(), nn::Linear(8, 1)});
    model.to(test_device());
    optim::Adam optimizer(model.parameters(), {.lr = 0.05});
    double last = 1;
    for (int epoch = 0; epoch <= 200; ++epoch) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(model(x), y);
      loss.backward();
      optimizer.step();
      if (epoch == 200) last = loss.item();
    }
    EXPECT_LT(last, 0.01) << "seed " << seed;
  }
}

std::vector<double> losses_of(const Device device, int steps) {
  manual_seed(3);
  models::LeNet model;
  model.to(device);
  data::DataLoader loader(
      data::digits(data::Split::train, {.count = 32 * steps}),
      {.batch_size = 32, .shuffle = true, .workers = 0, .device = device, .seed = 5});
  optim::AdamW optimizer(model.parameters(), {.lr = 4e-3});
  std::vector<double> losses;
  for (auto [x, y] : loader) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

// On the CPU the bits are equal; elsewhere sums have another order, and training amplifies
// differences.
TEST(Training, TheSameCurveOnEveryDevice) {
  const int steps = 20;
  const std::vector<double> expected = losses_of(Device::cpu(), steps),
                            losses = losses_of(test_device(), steps);
  ASSERT_EQ(losses.size(), expected.size());
  EXPECT_LT(expected.back(), 0.9 * expected.front());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (test_device() == Device::cpu()) {
      EXPECT_EQ(losses[i], expected[i]) << "step " << i;
    } else {
      EXPECT_NEAR(losses[i], expected[i], 2e-4 * std::pow(1.0 + static_cast<double>(i), 1.5))
          << "step " << i;
    }
  }
}

double accuracy(nn::Module& model, const data::ImageDataset& digits) {
  model.eval();
  NoGrad no_grad;
  data::DataLoader loader(digits, {.batch_size = 500, .workers = 0, .device = test_device()});
  std::int64_t right = 0, seen = 0;
  for (auto [x, y] : loader) {
    right += model(x).argmax(1).eq(y).sum().item<std::int64_t>();
    seen += y.numel();
  }
  model.train();
  return static_cast<double>(right) / static_cast<double>(seen);
}

// Drawn digits are not trivial: a single layer is far from what a network reaches.
TEST(Training, ALinearModelReadsFewerThan95PercentOfTheDigits) {
  manual_seed(1);
  nn::Sequential model({nn::Flatten(), nn::Linear(28 * 28, 10)});
  model.to(test_device());
  data::DataLoader loader(data::digits(data::Split::train, {.count = 20'000}),
                          {.batch_size = 100, .shuffle = true, .device = test_device()});
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto [x, y] : loader) {
      optimizer.zero_grad();
      cross_entropy(model(x), y).backward();
      optimizer.step();
    }
  }
  const double read = accuracy(model, data::digits(data::Split::test, {.count = 3'000}));
  EXPECT_GT(read, 0.85);
  EXPECT_LT(read, 0.95);
}

}  // namespace
}  // namespace volta
