// The rules of evaluation by name: what is computed when, what is kept, and what is counted.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "runtime/device_work.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions on_device(bool grad = false) {
  return {.device = test_device(), .requires_grad = grad};
}

// Returns what an action adds to the counters.
template <class Action>
Counters counted(Action action) {
  synchronize(test_device());
  const Counters before = counters();
  action();
  synchronize(test_device());
  const Counters after = counters();
  Counters delta;
  delta.submits = after.submits - before.submits;
  delta.plans_built = after.plans_built - before.plans_built;
  delta.compilations = after.compilations - before.compilations;
  delta.launches = after.launches - before.launches;
  delta.library_calls = after.library_calls - before.library_calls;
  delta.transfers = after.transfers - before.transfers;
  delta.bytes_to_device = after.bytes_to_device - before.bytes_to_device;
  delta.bytes_to_host = after.bytes_to_host - before.bytes_to_host;
  delta.allocations = after.allocations - before.allocations;
  return delta;
}

struct Xor {
  nn::Sequential model{{{"fc1", nn::Linear(2, 8)}, {"act", nn::ReLU()}, {"fc2", nn::Linear(8, 1)}}};
  Tensor x, y;
  optim::Adam optimizer;

  Xor()
      : x(tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, on_device())),
        y(tensor({0, 1, 1, 0}, {4, 1}, on_device())),
        optimizer((model.to(test_device()), model.parameters()), {.lr = 0.05}) {}

  Tensor step() {
    optimizer.zero_grad();
    Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  }
};

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
    EXPECT_NE(std::string(e.what()).find("evaluation_test.cpp"), std::string::npos) << e.what();
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
    EXPECT_NE(message.find("evaluation_test.cpp:"), std::string::npos) << message;
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
