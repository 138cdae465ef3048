// Equal bits with any number of threads, and evaluation from several threads.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/evaluation_testing.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using evaluation_testing::on_device;

// ---- Determinism.

std::vector<float> train_bits() {
  manual_seed(11);
  nn::Sequential model({{"a", nn::Linear(50, 70)}, {"r", nn::ReLU()}, {"b", nn::Linear(70, 9)}});
  model.to(test_device());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const Tensor x = randn({130, 50}, on_device());
  const Tensor labels = randint(0, 9, {130}, on_device());
  for (int i = 0; i < 5; ++i) {
    optimizer.zero_grad();
    cross_entropy(dropout(model(x), 0.2), labels).backward();
    optimizer.step();
  }
  std::vector<float> bits;
  for (const Tensor& p : model.parameters()) {
    const auto values = p.to_vector<float>();
    bits.insert(bits.end(), values.begin(), values.end());
  }
  return bits;
}

TEST(Determinism, TheSameBitsWithOneTwoAndFourThreadsAndAgain) {
  const int threads = num_threads();
  set_num_threads(1);
  const auto one = train_bits();
  for (const int n : {1, 2, 4}) {
    set_num_threads(n);
    EXPECT_EQ(train_bits(), one) << n << " threads";
  }
  set_num_threads(threads);
}

TEST(Determinism, UniformsAreBitEqualOnEveryDevice) {
  const auto draw = [](Device device) {
    manual_seed(5);
    return rand({1001}, {.device = device}).to_vector<float>();
  };
  EXPECT_EQ(draw(test_device()), draw(Device::cpu()));
}

// ---- Threads.

TEST(Threads, TwoThreadsRecordAndEvaluate) {
  const auto work = [](int seed, double& result) {
    manual_seed(static_cast<std::uint64_t>(seed));
    Tensor w = randn({20, 20}, on_device(true));
    for (int i = 0; i < 30; ++i) {
      w.zero_grad();
      const Tensor loss = (w.matmul(w).tanh() * 0.1).sum();
      loss.backward();
      const NoGrad no_grad;
      w -= w.grad() * 0.01;
    }
    result = w.sum().item();
  };
  double alone[2], together[2];
  work(1, alone[0]);
  work(2, alone[1]);
  std::thread first([&] { work(1, together[0]); });
  std::thread second([&] { work(2, together[1]); });
  first.join();
  second.join();
  EXPECT_EQ(alone[0], together[0]);
  EXPECT_EQ(alone[1], together[1]);
}

TEST(Threads, UsingAnotherThreadsPendingTensorSubmitsIt) {
  Tensor made;
  std::thread maker([&] { made = ones({8}, on_device()) * 3; });
  maker.join();
  EXPECT_EQ((made + 1).to_vector<float>(), std::vector<float>(8, 4.0f));
}

TEST(Threads, SeveralThreadsRunOneModelInEvalMode) {
  nn::Sequential model({{"a", nn::Linear(30, 40)}, {"t", nn::Tanh()}, {"b", nn::Linear(40, 5)}});
  model.to(test_device());
  model.eval();
  const NoGrad no_grad;
  const Tensor x = randn({16, 30}, on_device()).eval();
  const auto expected = model(x).to_vector<float>();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const NoGrad off;
      for (int i = 0; i < 25; ++i) wrong[t] += model(x).to_vector<float>() != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace volta
