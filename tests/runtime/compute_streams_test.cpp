// Several streams of a device that compute in parallel: what waits for what, and that values equal
// those of a single stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/async.h"
#include "volta/profiler.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here() { return {.device = test_device()}; }

Tensor numbers(const Shape& shape, unsigned seed) {
  std::minstd_rand random(seed + 1);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(random() % 2048) / 1024 - 1;
  return from_vector(values, shape, here());
}

bool on_cuda() { return test_device().type() == DeviceType::cuda; }

// Keeps the device busy for a while with a series of kernels; all elements are 1 / n.
Tensor long_work(int products = 16, std::int64_t n = on_cuda() ? 6144 : 512) {
  const Tensor mean = full({n, n}, 1.0 / static_cast<double>(n), here()) + 0;
  Tensor x = mean;
  for (int i = 0; i < products; ++i) x = matmul(x, mean);
  return x;
}

// Returns the value of x, delayed on the device.
Tensor late(const Tensor& x) { return x + long_work(3, on_cuda() ? 6144 : 256).mean() * 0; }

// A small network in training.
struct Trainee {
  explicit Trainee(unsigned seed, std::int64_t width = 32) : x(numbers({16, 12}, seed)) {
    manual_seed(seed);
    model = std::make_unique<nn::Sequential>(
        nn::Sequential({nn::Linear(12, width), nn::Tanh(), nn::Linear(width, width), nn::ReLU(),
                        nn::Linear(width, 3)}));
    model->to(test_device());
    optimizer = std::make_unique<optim::Adam>(model->parameters(), optim::AdamOptions{.lr = 1e-2});
    y = numbers({16, 3}, seed + 100);
  }
  Tensor step() {
    optimizer->zero_grad();
    const Tensor loss = mse_loss((*model)(x), y);
    loss.backward();
    optimizer->step();
    return loss;
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const Tensor& parameter : model->parameters()) {
      const std::vector<float> values = parameter.to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  Tensor x, y;
  std::unique_ptr<nn::Sequential> model;
  std::unique_ptr<optim::Adam> optimizer;
};

std::vector<float> trained_alone(unsigned seed, int steps) {
  Trainee trainee(seed);
  for (int i = 0; i < steps; ++i) trainee.step();
  return trainee.weights();
}

TEST(ComputeStreams, ScopesNestAndAreTheThreads) {
  EXPECT_EQ(current_stream(), 0);
  {
    const StreamScope first(1);
    EXPECT_EQ(current_stream(), 1);
    {
      const StreamScope second(kMaxStreams - 1);
      EXPECT_EQ(current_stream(), kMaxStreams - 1);
      const ExecutionContext context({.matmul = Precision::tf32});
      EXPECT_EQ(current_stream(), kMaxStreams - 1) << "a scope of another kind";
    }
    EXPECT_EQ(current_stream(), 1);
    std::jthread([] { EXPECT_EQ(current_stream(), 0); }).join();
  }
  EXPECT_EQ(current_stream(), 0);
}

TEST(ComputeStreams, ThereAreSoMany) {
  for (const int stream : {-1, kMaxStreams, 1000}) {
    try {
      const StreamScope scope(stream);
      FAIL() << stream;
    } catch (const ArgumentError& error) {
      EXPECT_NE(std::string(error.what()).find("they are 0 to 3"), std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(current_stream(), 0);
}

TEST(ComputeStreams, TwoModelsTrainAsEachAlone) {
  constexpr int kSteps = 30;
  Trainee a(1), b(2);
  std::vector<float> losses;
  for (int i = 0; i < kSteps; ++i) {
    Tensor first, second;
    {
      const StreamScope stream(1);
      first = a.step();
    }
    {
      const StreamScope stream(2);
      second = b.step();
    }
    if (i % 7 == 0) losses.push_back(static_cast<float>(first.item() + second.item()));
  }
  EXPECT_EQ(a.weights(), trained_alone(1, kSteps));
  EXPECT_EQ(b.weights(), trained_alone(2, kSteps));
  EXPECT_LT(losses.back(), losses.front());
}

TEST(ComputeStreams, ThreadsTrainInStreamsOfTheirOwn) {
  constexpr int kSteps = 30, kThreads = 3;
  std::vector<std::unique_ptr<Trainee>> all;
  for (unsigned i = 0; i < kThreads; ++i) all.push_back(std::make_unique<Trainee>(i));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const StreamScope stream(t);
        Trainee& trainee = *all[static_cast<std::size_t>(t)];
        for (int i = 0; i < kSteps; ++i) {
          const Tensor loss = trainee.step();
          if (i % 5 == t) {
            EXPECT_GT(loss.item(), 0);
          }
        }
      });
    }
  }
  for (unsigned i = 0; i < kThreads; ++i)
    EXPECT_EQ(all[i]->weights(), trained_alone(i, kSteps)) << i;
}

// Every operation runs in a random stream with values of all others.
TEST(ComputeStreams, ValuesAreUsedInAnyStream) {
  // The kernels take longer than their submission.
  const Shape shape = on_cuda() ? Shape{1024, 4099} : Shape{257, 1023};
  const auto compute = [&](bool streams) {
    std::minstd_rand random(7);
    std::vector<Tensor> values;
    for (unsigned i = 0; i < 4; ++i) values.push_back(numbers(shape, i));
    for (int i = 0; i < 80; ++i) {
      const StreamScope stream(streams ? static_cast<int>(random() % kMaxStreams) : 0);
      if (!streams) static_cast<void>(random());
      const Tensor& a = values[random() % values.size()];
      const Tensor& b = values[random() % values.size()];
      // Its former value is dropped, perhaps while it is read.
      Tensor& c = values[random() % values.size()];
      switch (random() % 4) {
        case 0:
          c = a * 0.5f + b * 0.25f;
          break;
        case 1:
          c = (late(a) - b).tanh();  // the other streams continue meanwhile
          break;
        case 2:
          c = a - b.sum(1, true) * 0.001f;
          break;
        default:
          c = a.exp().log() * b.mean();
          break;
      }
      if (random() % 3 == 0) c.eval();
    }
    std::vector<std::vector<float>> results;
    for (const Tensor& value : values) results.push_back(value.to_vector<float>());
    return results;
  };
  const auto wanted = compute(false);
  for (int round = 0; round < 2; ++round) {
    const auto results = compute(true);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(results[i].size(), wanted[i].size());
      float worst = 0;
      for (std::size_t j = 0; j < wanted[i].size(); ++j)
        worst = std::max(worst, std::abs(results[i][j] - wanted[i][j]));
      EXPECT_LT(worst, 1e-4f) << i;
    }
  }
}

// One stream changes a value in place while another one reads the former value.
TEST(ComputeStreams, UpdatesInPlaceWaitForReadersOfOtherStreams) {
  constexpr int kRounds = 20;
  const std::int64_t n = 3 << 18;
  const auto sums_of = [&](int readers, int writers) {
    // Values from the host, because a constant has no memory that could be changed.
    Tensor state = from_vector(std::vector<float>(static_cast<std::size_t>(n), 0.0f), {n}, here());
    std::vector<Tensor> sums;
    for (int i = 0; i < kRounds; ++i) {
      if (i == 1) reset_peak_memory(test_device());  // temporaries exist from now on
      {
        const StreamScope stream(readers);
        sums.push_back((late(state) * 2).sqrt().square().sum());
        sums.back().eval();
      }
      {
        const StreamScope stream(writers);
        state += 1;
        state.eval();
      }
    }
    const MemoryStats memory = memory_stats(test_device());
    EXPECT_LT(memory.peak, memory.in_use + sizeof(float) * n) << "not in place";
    synchronize(test_device());
    std::vector<double> values;
    for (const Tensor& sum : sums) values.push_back(sum.item());
    values.push_back(state[n - 1].item());
    return values;
  };
  const std::vector<double> wanted = sums_of(0, 0);
  for (int i = 0; i < kRounds; ++i)
    EXPECT_NEAR(wanted[static_cast<std::size_t>(i)], 2.0 * i * n, 2e-4 * i * n) << i;
  EXPECT_EQ(wanted.back(), kRounds);
  EXPECT_EQ(sums_of(2, 1), wanted);
}

// Memory that is released while a stream uses it is reused by another stream.
TEST(ComputeStreams, MemoryIsUsedAgainWhenItsReadersAreDone) {
  const std::int64_t n = on_cuda() ? 3 << 22 : 3 << 18;
  constexpr int kRounds = 60;
  std::vector<Tensor> sums;
  for (int i = 0; i < kRounds; ++i) {
    Tensor value;
    {
      const StreamScope stream(1 + i % 3);
      value = full({n}, i, here()) + 0;
      value.eval();
    }
    {
      const StreamScope stream(1 + (i + 1) % 3);
      sums.push_back((late(value) * 2).sqrt().square().sum());
      sums.back().eval();
    }
    if (i % 4 == 0) {  // an upload into released memory
      value = Tensor();
      const Tensor other =
          from_vector(std::vector<float>(static_cast<std::size_t>(n), -1.0f), {n}, here());
      other.eval();
    }
  }
  for (int i = 0; i < kRounds; ++i)
    EXPECT_NEAR(sums[static_cast<std::size_t>(i)].item(), 2.0 * i * n, 2e-4 * i * n) << i;
}

TEST(ComputeStreams, OneDoesNotWaitForAnother) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has finished when it returns";
  const auto short_work = [] {
    const StreamScope stream(2);
    const Tensor x = full({64}, 3, here()) * 2;
    x.eval_async().wait();
    return x;
  };
  const auto begin = [] {
    const StreamScope stream(1);
    return long_work().eval_async();
  };
  begin().wait();
  short_work();  // both plans are built and compiled
  const Event slow = begin();
  const Tensor x = short_work();
  const bool slow_is_done = slow.done();
  EXPECT_EQ(x.to_vector<float>()[5], 6);
  const bool still = slow.done();
  slow.wait();
  EXPECT_FALSE(slow_is_done) << "the short work waited for the long";
  EXPECT_FALSE(still) << "its values did";
}

// A thread that waits for its stream's value does not delay another thread's.
TEST(ComputeStreams, WaitingInOneThreadLeavesTheDeviceToOthers) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has finished when it returns";
  const auto slow_sum = [] {
    const StreamScope stream(1);
    return long_work(24).sum();
  };
  slow_sum().item();
  const auto quick = [] {
    const StreamScope stream(2);
    return (full({64}, 3, here()) * 2).sum().item();
  };
  quick();
  const Tensor sum = slow_sum();
  const Event slow = sum.eval_async();
  std::jthread waiting([&] { EXPECT_NEAR(sum.item(), on_cuda() ? 6144 : 512, 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(quick(), 384);
  EXPECT_FALSE(slow.done()) << "the quick one had to wait";
}

TEST(ComputeStreams, ARepeatedStepMakesNothingNew) {
  Trainee a(3), b(4);
  const auto step = [&] {
    {
      const StreamScope stream(1);
      a.step();
    }
    {
      const StreamScope stream(2);
      b.step();
    }
  };
  for (int i = 0; i < 12; ++i) step();
  synchronize(test_device());
  const Counters before = counters();
  for (int i = 0; i < 20; ++i) step();
  synchronize(test_device());
  const Counters after = counters();
  EXPECT_EQ(after.plans_built, before.plans_built);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.transfers, before.transfers);
  if (on_cuda()) {
    EXPECT_EQ(after.graph_launches - before.graph_launches, 40u) << "a step is one launch";
  }
}

TEST(ComputeStreams, SynchronizeRunsAllThatIsPending) {
  const StreamScope first(1);
  const Tensor a = full({8}, 1, here()) + 1;
  const StreamScope second(2);
  const Tensor b = full({8}, 2, here()) + 1, c = b * 2;
  submit(test_device());
  EXPECT_FALSE(b.is_pending());
  EXPECT_FALSE(c.is_pending());
  EXPECT_TRUE(a.is_pending()) << "another stream's";
  synchronize(test_device());
  EXPECT_FALSE(a.is_pending());
  EXPECT_EQ(a[0].item() + c[7].item(), 8);
}

TEST(ComputeStreams, AWrongIndexIsToldToItsObserver) {
  const Tensor table = numbers({10, 4}, 1);
  Tensor wrong, right;
  {
    const StreamScope stream(1);
    wrong = embedding(table, from_vector(std::vector<std::int64_t>{3, 99}, {2}, here())).sum();
    wrong.eval_async();
  }
  {
    const StreamScope stream(2);
    right = embedding(table, from_vector(std::vector<std::int64_t>{3, 9}, {2}, here())).sum();
    right.eval_async();
  }
  EXPECT_NO_THROW(right.item());
  EXPECT_THROW(wrong.item(), IndexError);
  {
    const StreamScope stream(1);
    EXPECT_NO_THROW((table.sum() * 2).item());
  }
}

TEST(ComputeStreams, HistoryCrossesThem) {
  const Tensor x = numbers({64, 32}, 5), w = numbers({32, 8}, 6);
  const auto gradients = [&](bool streams) {
    Tensor weight = (w + 0).detach();
    weight.set_requires_grad();
    Tensor hidden, loss;
    {
      const StreamScope stream(streams ? 1 : 0);
      hidden = matmul(x, weight).tanh();
    }
    {
      const StreamScope stream(streams ? 2 : 0);
      loss = (hidden * hidden).sum();
    }
    loss.backward();  // in stream 0
    return weight.grad().to_vector<float>();
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST(ComputeStreams, TheEndOfAScopeHandsOver) {
  Tensor first, second, thrown;
  {
    const StreamScope stream(1);
    first = full({8}, 1, here()) + 1;
    {
      const StreamScope same(1);
      second = first * 2;
    }
    EXPECT_TRUE(second.is_pending()) << "the stream goes on";
  }
  EXPECT_FALSE(first.is_pending());
  EXPECT_FALSE(second.is_pending());
  EXPECT_EQ(second.to_vector<float>()[3], 4);
  try {
    const StreamScope stream(1);
    thrown = full({8}, 1, here()) + 3;
    throw 1;
  } catch (int) {
  }
  EXPECT_TRUE(thrown.is_pending()) << "nothing runs on the way out";
  EXPECT_EQ(thrown.to_vector<float>()[3], 4);
}

// A download that one stream has begun does not delay the values of another stream.
TEST(ComputeStreams, ValuesOnTheWayKeepNobodyWaiting) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has finished when it returns";
  const auto begin = [] {
    const StreamScope stream(1);
    return long_work(24);
  };
  begin().eval_async().wait();
  const Tensor quick = numbers({64}, 3) + 0;
  quick.eval();
  const Tensor slow = begin();
  const Event event = slow.eval_async();
  const AsyncValues<float> values = slow.to_vector_async<float>();
  const std::vector<float> read = quick.to_vector<float>();
  EXPECT_FALSE(event.done()) << "the read waited";
  EXPECT_EQ(read.size(), 64u);
  values.wait();
}

// Checking for a wrong index does not either.
TEST(ComputeStreams, CheckedIndicesKeepNobodyWaiting) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU has finished when it returns";
  const Tensor table = numbers({10, 4}, 1);
  const auto looked_up = [&] {
    const StreamScope stream(1);
    return embedding(table, from_vector(std::vector<std::int64_t>{3, 9}, {2}, here())).sum();
  };
  looked_up().item();
  long_work(24).eval_async().wait();
  {
    const StreamScope stream(1);
    long_work(24).eval_async().wait();
  }
  const Tensor value = looked_up();
  Event slow;
  {
    const StreamScope stream(1);
    slow = long_work(24).eval_async();
  }
  EXPECT_NO_THROW(value.item());
  EXPECT_FALSE(slow.done()) << "the check waited for what came after";
}

TEST(ComputeStreams, AssignmentsOfTwoStreamsFollowEachOther) {
  Tensor state = full({4}, 7, here()) + 0;
  state.eval();
  {
    const StreamScope stream(1);
    state += 1;
    const StreamScope other(2);
    state.fill_(3);
  }
  EXPECT_EQ(state.to_vector<float>()[2], 3);
}

TEST(ComputeStreams, TheProfileTellsThemApart) {
  if (test_device().is_cpu()) GTEST_SKIP() << "one stream after the other";
  const auto work = [] {
    std::vector<Tensor> all;
    for (int i = 0; i < 6; ++i) {
      const StreamScope stream(1 + i % 2);
      all.push_back((on_cuda() ? long_work(100, 1024) : long_work(20, 256)).sum());
      all.back().eval_async();
    }
    for (const Tensor& one : all) static_cast<void>(one.item());
  };
  work();
  Profiler profiler;
  work();
  const Profile profile = profiler.stop();
  double first = 0, second = 0;
  for (const ProfileEvent& event : profile.events) {
    if (event.device != test_device() || event.kind == "upload" || event.kind == "download")
      continue;
    (event.stream == 1 ? first : second) += event.seconds;
    EXPECT_TRUE(event.stream == 1 || event.stream == 2) << event.what;
  }
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
  // Both streams worked at the same time, if kernels leave room for others.
  int beside = 0;
  for (const ProfileEvent& a : profile.events) {
    for (const ProfileEvent& b : profile.events) {
      if (a.stream == 1 && b.stream == 2 && a.start < b.start + b.seconds &&
          b.start < a.start + a.seconds)
        ++beside;
    }
  }
  if (on_cuda()) {
    EXPECT_GT(beside, 0);
  }
  const testing_child::Folder folder;
  profile.save_trace(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  std::stringstream text;
  text << file.rdbuf();
  for (const char* name : {"computing, stream 1", "computing, stream 2"})
    EXPECT_NE(text.str().find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace volta
