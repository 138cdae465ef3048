// The rules of evaluation by name: what is computed when, and what is kept.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/evaluation_testing.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using evaluation_testing::counted;
using evaluation_testing::on_device;
using evaluation_testing::Xor;

// ---- Recording and submission.

TEST(Recording, NothingRunsBeforeSomebodyLooks) {
  const Tensor a = randn({64, 64}, on_device()).eval();
  Tensor b;
  EXPECT_EQ(counted([&] {
              b = (a * 2 + 1).tanh();
              EXPECT_TRUE(b.is_pending());
              b = Tensor();
            }).launches,
            0u);
  EXPECT_EQ(counted([&] {
              b = (a * 2 + 1).tanh();
              b.eval();
            }).launches,
            1u);
  EXPECT_FALSE(b.is_pending());
}

TEST(Recording, ASubmitComputesEverythingHeld) {
  const Tensor a = randn({64, 64}, on_device()).eval();
  const Tensor b = a.exp(), c = a.sin();
  EXPECT_TRUE(b.is_pending() && c.is_pending());
  b.eval();
  EXPECT_FALSE(c.is_pending());
}

TEST(Recording, OptimizerStepSubmitsTheWholeStepAsOnePlan) {
  Xor net;
  net.step();
  EXPECT_EQ(counted([&] { net.step(); }).submits, 1u);
}

TEST(Recording, MicroBatchesRepeatAPlanInsteadOfUnrolling) {
  Xor net;
  const auto round = [&] {
    net.optimizer.zero_grad();
    for (int micro = 0; micro < 6; ++micro) mse_loss(net.model(net.x), net.y).backward();
    net.optimizer.step();
  };
  round();
  round();
  EXPECT_EQ(counted(round).plans_built, 0u);
  // From the third micro-batch of a first round on they share one plan.
  Xor other;
  const Counters first = counted([&] {
    for (int micro = 0; micro < 12; ++micro) mse_loss(other.model(other.x), other.y).backward();
  });
  EXPECT_LE(first.plans_built, 2u);
  EXPECT_EQ(first.submits, 11u);
}

TEST(Recording, AHundredThousandChainedOperationsOverflowNothing) {
  Tensor x = tensor({0.5, -0.5}, {2}, on_device(true));
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y + 1;
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{100'000.5f, 99'999.5f}));
}

TEST(Recording, ALongHistoryIsFreedWithoutRecursion) {
  Tensor x = tensor({1}, {1}, on_device(true));
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = -y;
  y = Tensor();  // the whole tape is destroyed at once
  EXPECT_FALSE(x.grad().defined());
}

// ---- Held intermediate results and early reads.

TEST(HeldIntermediates, AHandleAddsAStoreAndSplitsNothing) {
  const Tensor x = randn({1000}, on_device()).eval();
  EXPECT_EQ(counted([&] { ((x * 2).exp() + 1).eval(); }).launches, 1u);
  Tensor middle, end;
  EXPECT_EQ(counted([&] {
              middle = (x * 2).exp();
              end = (middle + 1).sqrt();
              end.eval();
            }).launches,
            1u);
  EXPECT_FALSE(middle.is_pending());
  const auto m = middle.to_vector<float>(), e = end.to_vector<float>();
  for (std::size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(e[i], std::sqrt(m[i] + 1), 1e-6 * e[i]);
}

TEST(EarlyObservation, NoProductOrReductionRunsTwice) {
  const Tensor x = randn({64, 128}, on_device()).eval();
  Tensor w1 = randn({256, 128}, on_device(true)), w2 = randn({10, 256}, on_device(true));
  const Tensor labels = zeros({64}, {.dtype = DType::i64, .device = test_device()});
  const auto train = [&](bool look) {
    return counted([&] {
      w1.zero_grad();
      w2.zero_grad();
      const Tensor loss = cross_entropy(linear(linear(x, w1).relu(), w2), labels);
      if (look) loss.item();
      loss.backward();
      w1.grad().eval();
    });
  };
  w1.eval();
  w2.eval();
  const Counters whole = train(false), early = train(true);
  EXPECT_EQ(early.library_calls, whole.library_calls);
  // The row kernel of the loss runs once, and the gradient becomes a map of its own.
  EXPECT_LE(early.launches, whole.launches + 1);
}

// ---- Donation.

TEST(Donation, AnUpdateKeepsItsBufferAndAllocatesNothing) {
  Xor net;
  for (int i = 0; i < 6; ++i) net.step();
  const auto before = memory_stats(test_device());
  for (int i = 0; i < 20; ++i) net.step();
  synchronize(test_device());
  EXPECT_EQ(memory_stats(test_device()).in_use, before.in_use);
  EXPECT_EQ(memory_stats(test_device()).reserved, before.reserved);
}

TEST(Donation, AHeldOldValueSurvivesTheUpdate) {
  Xor net;
  net.step();
  const Tensor weight = net.model.parameters()[0];
  const Tensor old = weight.detach();
  const auto before = old.to_vector<float>();
  // A second handle, computed on the device so that no host copy provides the value.
  const Tensor copy = (old + 0).eval();
  const Tensor pinned = old.detach();
  net.step();
  net.step();
  EXPECT_EQ(copy.to_vector<float>(), before);
  EXPECT_EQ((pinned * 1).to_vector<float>(), before);
  EXPECT_NE(weight.to_vector<float>(), before);
}

TEST(Donation, InPlaceChangesAreSeenThroughEveryHandle) {
  Tensor a = tensor({1, 2}, {2}, on_device());
  const Tensor b = a, c = a.clone();
  a += 1;
  a.fill_(7);
  a *= b;
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{49, 49}));
  EXPECT_EQ(c.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Donation, EveryLossOfAThousandStepsKeepsItsValue) {
  Xor net, twin;
  {
    const NoGrad no_grad;
    for (std::size_t i = 0; i < net.model.parameters().size(); ++i) {
      Tensor p = twin.model.parameters()[i];
      p.copy_(net.model.parameters()[i]);
    }
  }
  std::vector<Tensor> losses;
  std::vector<double> seen;
  for (int i = 0; i < 1000; ++i) losses.push_back(net.step());
  for (int i = 0; i < 1000; ++i) seen.push_back(twin.step().item());
  for (std::size_t i = 0; i < losses.size(); ++i)
    ASSERT_EQ(losses[i].item(), seen[i]) << "step " << i;
}

// ---- Scalars.

TEST(Scalars, ANewNumberIsAnArgumentAndBuildsNothing) {
  const Tensor x = randn({100}, on_device()).eval();
  const auto f = [&](double s) { return (x * s + s).sum().item(); };
  f(0.3);
  EXPECT_EQ(counted([&] { f(0.7); }).plans_built, 0u);
  const double base = f(0.25), doubled = f(0.75);
  EXPECT_NEAR(doubled, 3 * base, 1e-4 * std::fabs(doubled) + 1e-5);
}

TEST(Scalars, TwoEqualArgumentsAreNotMerged) {
  const Tensor x = tensor({1, 2}, {2}, on_device());
  const auto f = [&](double a, double b) { return (x * a + b).to_vector<float>(); };
  EXPECT_EQ(f(3, 3), (std::vector<float>{6, 9}));
  EXPECT_EQ(f(3, 4), (std::vector<float>{7, 10}));
}

TEST(Scalars, LiteralsAreInTheKey) {
  const Tensor x = tensor({3, 5}, {2}, on_device());
  const auto f = [&](double a) { return (x * a).to_vector<float>(); };
  EXPECT_EQ(f(1), (std::vector<float>{3, 5}));
  EXPECT_EQ(f(2), (std::vector<float>{6, 10}));
  EXPECT_EQ(f(0.5), (std::vector<float>{1.5, 2.5}));
  EXPECT_EQ(f(-1), (std::vector<float>{-3, -5}));
}

}  // namespace
}  // namespace volta
