// What the tape keeps and what backward consumes.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/evaluation_testing.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using evaluation_testing::counted;
using evaluation_testing::on_device;

// ---- Tape.

TEST(Tape, BackwardConsumesIt) {
  const Tensor x = tensor({2}, {1}, on_device(true));
  const Tensor y = (x * x).sum();
  y.backward();
  try {
    y.backward();
    FAIL() << "a second backward passed";
  } catch (const ArgumentError& e) {
    EXPECT_NE(std::string(e.what()).find("was used by an earlier backward()"), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("evaluation_tape_test.cpp"), std::string::npos)
        << e.what();
  }
}

TEST(Tape, RetainGraphGivesExactlyTwiceTheGradient) {
  const Tensor x = tensor({2, -3}, {2}, on_device(true));
  const Tensor y = (x * x).sum();
  y.backward({.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{8, -12}));
}

TEST(Tape, ALiveLossPinsNoActivations) {
  const Tensor w = randn({256, 256}, on_device(true));
  const Tensor x = randn({256, 256}, on_device()).eval();
  Tensor loss;
  const auto step = [&] {
    w.zero_grad();
    Tensor h = x;
    for (int i = 0; i < 10; ++i) h = h.matmul(w).tanh();
    loss = h.sum();
    loss.backward();
    loss.eval();
  };
  step();
  synchronize(test_device());
  const auto after_one = memory_stats(test_device()).in_use;
  step();
  synchronize(test_device());
  EXPECT_EQ(memory_stats(test_device()).in_use, after_one);
}

TEST(Tape, NothingIsRecordedUnderNoGrad) {
  const Tensor x = tensor({2}, {1}, on_device(true));
  const NoGrad no_grad;
  EXPECT_FALSE((x * x).requires_grad());
}

TEST(Tape, DetachCutsTheHistory) {
  const Tensor x = tensor({3}, {1}, on_device(true));
  const Tensor y = (x * x.detach()).sum();
  y.backward();
  EXPECT_EQ(x.grad().item(), 3);
}

// ---- Scopes.

TEST(Scopes, BackwardIgnoresThePrecisionOfTheMoment) {
  // The tf32 flag is part of a product's key: a backward inside another scope replays the same
  // plan.
  const Tensor a = randn({64, 64}, on_device(true)), b = randn({64, 64}, on_device());
  a.eval();
  b.eval();
  const auto run = [&](bool scope) {
    a.zero_grad();
    const Tensor y = a.matmul(b).sum();
    if (scope) {
      const ExecutionContext tf32({.matmul = Precision::tf32});
      y.backward();
    } else {
      y.backward();
    }
    a.grad().eval();
  };
  run(false);
  EXPECT_EQ(counted([&] { run(true); }).plans_built, 0u);
}

}  // namespace
}  // namespace volta
