// Errors while a plan runs.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/evaluation_testing.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using evaluation_testing::on_device;

// ---- Errors while running.

TEST(Failure, AnIndexOutOfRangeThrowsAtTheNextLookAndTheDeviceGoesOn) {
  const Tensor table = randn({10, 4}, on_device()).eval();
  const Tensor ids = from_vector<std::int64_t>({1, 12, 3}, on_device());
  const Tensor rows = embedding(table, ids);
  try {
    rows.to_vector<float>();
    FAIL() << "no error";
  } catch (const IndexError& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find("embedding ("), std::string::npos) << message;
    EXPECT_NE(message.find("evaluation_failures_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("index 12 is out of range [0, 10)"), std::string::npos) << message;
  }
  EXPECT_EQ(embedding(table, from_vector<std::int64_t>({3}, on_device())).to_vector<float>(),
            table.narrow(0, 3, 1).to_vector<float>());
}

TEST(Failure, ALabelOutOfRangeNamesTheLoss) {
  const Tensor logits = randn({3, 5}, on_device());
  const Tensor labels = from_vector<std::int64_t>({0, -1, 4}, on_device());
  try {
    cross_entropy(logits, labels).item();
    FAIL() << "no error";
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("cross_entropy ("), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("index -1 is out of range [0, 5)"), std::string::npos)
        << e.what();
  }
}

TEST(Failure, MemoryExhaustedLeavesParametersAndASmallerBatchGoesOn) {
  nn::Sequential model({{"a", nn::Linear(64, 64)}, {"t", nn::Tanh()}, {"b", nn::Linear(64, 4)}});
  model.to(test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const auto step = [&](std::int64_t batch) {
    optimizer.zero_grad();
    const Tensor x = ones({batch, 64}, on_device()) * 0.1;
    model(x).square().mean().backward();
    optimizer.step();
    synchronize(test_device());
  };
  step(8);
  step(8);
  const auto before = model.parameters()[0].to_vector<float>();
  synchronize(test_device());
  empty_cache(test_device());
  set_memory_limit(test_device(), memory_stats(test_device()).reserved + (std::uint64_t{32} << 20));
  EXPECT_THROW(step(1'000'000), OutOfMemory);
  EXPECT_EQ(model.parameters()[0].to_vector<float>(), before);
  step(8);
  EXPECT_NE(model.parameters()[0].to_vector<float>(), before);
  set_memory_limit(test_device(), 0);
}

TEST(Failure, WhenASweepFailsTheObservedConeIsTriedAlone) {
  const Tensor small = (ones({4}, on_device()) * 3).eval();
  synchronize(test_device());
  empty_cache(test_device());
  set_memory_limit(test_device(), memory_stats(test_device()).reserved + (std::uint64_t{32} << 20));
  const Tensor huge = ones({64'000'000}, on_device()) * small.sum();
  const Tensor wanted = small + 1;
  EXPECT_EQ(wanted.to_vector<float>(), std::vector<float>(4, 4.0f));
  EXPECT_THROW(huge.eval(), OutOfMemory);
  set_memory_limit(test_device(), 0);
}

}  // namespace
}  // namespace volta
