// What evaluation costs: kernels, plans, allocations and copies.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/device_work.h"
#include "runtime/evaluation_testing.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using evaluation_testing::counted;
using evaluation_testing::on_device;
using evaluation_testing::Xor;

// ---- Copies.

TEST(Copies, ReadingTwiceMovesBytesOnce) {
  const Tensor x = randn({100}, on_device()).eval();
  const Counters reads = counted([&] {
    x.to_vector<float>();
    x.to_vector<float>();
    x.to_vector<float>();
  });
  EXPECT_EQ(reads.bytes_to_host, test_device().is_cpu() ? 0u : 400u);
  EXPECT_EQ(reads.transfers, test_device().is_cpu() ? 0u : 1u);
}

TEST(Copies, AStepAfterTheFirstMovesOnlyTheBatch) {
  Xor net;
  const auto step = [&] {
    net.x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, on_device());
    net.y = tensor({0, 1, 1, 0}, {4, 1}, on_device());
    net.step();
  };
  for (int i = 0; i < 6; ++i) step();
  const DeviceWork work;
  const Counters later = counted([&] {
    for (int i = 0; i < 10; ++i) step();
  });
  EXPECT_EQ(work.runs(), 10u);
  work.expect_here();
  EXPECT_EQ(later.transfers, test_device().is_cpu() ? 0u : 20u);
  EXPECT_EQ(later.bytes_to_device, test_device().is_cpu() ? 0u : 10u * (32 + 16));
  EXPECT_EQ(later.bytes_to_host, 0u);
  EXPECT_EQ(later.plans_built, 0u);
  EXPECT_EQ(later.compilations, 0u);
  EXPECT_EQ(later.allocations, 0u);
}

TEST(Copies, ToAnotherDeviceAndBackKeepsValuesAndGradients) {
  const Tensor x = tensor({1, 2, 3}, {3}, {.requires_grad = true});
  const Tensor y = (x * 2).to(test_device()) * 3;
  EXPECT_EQ(y.device(), test_device());
  y.to(Device::cpu()).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{6, 6, 6}));
  EXPECT_EQ(x.grad().device(), Device::cpu());
}

// ---- Numbers asserted anywhere.

TEST(Counts, XorReplaysInTenKernelsWithoutALibrary) {
  Xor net;
  for (int i = 0; i < 5; ++i) net.step();
  const Counters step = counted([&] { net.step(); });
  EXPECT_LE(step.launches, 10u);
  EXPECT_EQ(step.library_calls, 0u);
  EXPECT_EQ(step.submits, 1u);
}

TEST(Counts, AdamForFiftyParametersIsOneLaunch) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 50; ++i) {
    const Shape shape = i % 3 == 0 ? Shape{i + 1} : i % 3 == 1 ? Shape{i, 7} : Shape{2, i, 3};
    parameters.push_back(randn(shape, on_device(true)));
  }
  optim::Adam optimizer(parameters, {.lr = 0.01});
  for (int step = 0; step < 3; ++step) {
    for (Tensor& p : parameters) p.set_grad(randn(p.shape(), on_device()).eval());
    const Counters one = counted([&] { optimizer.step(); });
    if (step > 0) {
      EXPECT_EQ(one.launches, 1u);
    }
  }
}

// One launch also suffices if some of the parameters are large enough for vector loads.
TEST(Counts, AdamForLargeAndSmallParametersIsOneLaunch) {
  std::vector<Tensor> parameters{randn({10}, on_device(true)), randn({1 << 19}, on_device(true)),
                                 randn({3, 5}, on_device(true))};
  std::vector<std::vector<float>> before;
  for (const Tensor& p : parameters) before.push_back(p.to_vector<float>());
  optim::Adam optimizer(parameters, {.lr = 0.5});
  for (int step = 0; step < 2; ++step) {
    for (Tensor& p : parameters) p.set_grad(ones(p.shape(), on_device()).eval());
    const Counters one = counted([&] { optimizer.step(); });
    if (step > 0) {
      EXPECT_EQ(one.launches, 1u);
    }
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<float> after = parameters[i].to_vector<float>();
    for (std::size_t e = 0; e < after.size(); ++e) ASSERT_NEAR(after[e], before[i][e] - 1, 1e-4);
  }
}

TEST(Counts, ChainsAndRowsAreOneKernel) {
  const Tensor x = randn({64, 100}, on_device()).eval();
  const Tensor w = randn({100}, on_device()).eval(), b = randn({100}, on_device()).eval();
  EXPECT_EQ(counted([&] { x.softmax(1).eval(); }).launches, 1u);
  EXPECT_EQ(counted([&] { x.softmax(0).eval(); }).launches, 1u);
  EXPECT_EQ(counted([&] { x.log_softmax(1).eval(); }).launches, 1u);
  EXPECT_EQ(counted([&] { layer_norm(x, {100}, w, b).eval(); }).launches, 1u);
  EXPECT_EQ(counted([&] {
              const Tensor y = ((x * w + 0.5).tanh() * x.sigmoid() + b.square() - x).gelu();
              y.eval();
            }).launches,
            1u);
}

// The first kernel counts the labels that are not ignored, because every gradient is divided by
// their number. The second computes the rows with their gradients, the third the mean.
TEST(Counts, CrossEntropyAndItsGradientAreThreeKernels) {
  Tensor x = randn({64, 10}, on_device(true));
  x.eval();
  const Tensor labels = zeros({64}, {.dtype = DType::i64, .device = test_device()});
  const Counters step = counted([&] {
    x.zero_grad();
    const Tensor loss = cross_entropy(x, labels);
    loss.backward();
    loss.eval();
  });
  EXPECT_LE(step.launches, 3u);
}

TEST(Counts, FromTheThirdStepOnNothingIsBuiltCompiledOrAllocated) {
  Xor net;
  for (int i = 0; i < 2; ++i) net.step();
  const Counters later = counted([&] {
    for (int i = 0; i < 20; ++i) net.step();
  });
  EXPECT_EQ(later.plans_built, 0u);
  EXPECT_EQ(later.compilations, 0u);
  EXPECT_EQ(later.allocations, 0u);
  EXPECT_EQ(later.transfers, 0u);
}

}  // namespace
}  // namespace volta
