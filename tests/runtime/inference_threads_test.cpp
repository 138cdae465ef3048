// Several threads that run one model; inference without new plans; the number of threads of a loop;
// forked processes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/parallel.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_child::in_child;
using testing_child::is_child;

TensorOptions here() { return {.device = test_device()}; }

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(num_threads()) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// Counts the threads that run a parallel loop. Each stays in its part until the expected number has
// arrived, or for two seconds.
std::size_t threads_of_a_loop() {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const auto come = [&] {
    const std::lock_guard guard(mutex);
    seen.insert(std::this_thread::get_id());
    return static_cast<int>(seen.size());
  };
  platform::parallel_for(1000, 1, [&](std::int64_t, std::int64_t) {
    while (come() < num_threads() && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
  });
  return seen.size();
}

TEST(NumThreads, TakesEffectAtTheNextLoop) {
  for (const int count : {1, 3, 2, 4, 1}) {
    const ThreadCount threads(count);
    EXPECT_EQ(num_threads(), count);
    EXPECT_EQ(threads_of_a_loop(), static_cast<std::size_t>(count));
  }
}

TEST(NumThreads, IsThatOfAllThreads) {
  const ThreadCount threads(3);
  std::size_t elsewhere = 0;
  std::thread([&] { elsewhere = threads_of_a_loop(); }).join();
  EXPECT_EQ(elsewhere, 3u);
}

TEST(NumThreads, LessThanOneIsRefused) {
  EXPECT_THROW(set_num_threads(0), ArgumentError);
  EXPECT_GE(num_threads(), 1);
}

// ---- One model, several threads.

nn::Sequential make_model() {
  manual_seed(3);
  nn::Sequential model({{"conv", nn::Conv2d(1, 4, 3)},
                        {"norm", nn::BatchNorm2d(4)},
                        {"relu", nn::ReLU()},
                        {"flat", nn::Flatten()},
                        {"drop", nn::Dropout(0.5)},
                        {"a", nn::Linear(4 * 6 * 6, 64)},
                        {"tanh", nn::Tanh()},
                        {"b", nn::Linear(64, 7)}});
  model.to(test_device());
  // Changes the statistics from their initial values.
  model(rand({4, 1, 8, 8}, here())).sum().item();
  model.eval();
  return model;
}

std::vector<float> image(int number) {
  std::vector<float> pixels(64);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(number + 1) * 0.37f);
  return pixels;
}

std::vector<float> infer(nn::Sequential& model, int number) {
  const NoGrad no_grad;
  return model(from_vector(image(number), here()).reshape({1, 1, 8, 8})).to_vector<float>();
}

constexpr int kThreads = 4, kInputs = 25;

TEST(InferenceThreads, OneModelGivesEachThreadWhatASingleOneGets) {
  nn::Sequential model = make_model();
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kThreads * kInputs; ++i) expected.push_back(infer(model, i));
  EXPECT_NE(expected[0], expected[1]);
  std::vector<std::vector<float>> results(expected.size());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // Consecutive inputs belong to different threads.
      for (int i = t; i < kThreads * kInputs; i += kThreads)
        results[static_cast<std::size_t>(i)] = infer(model, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, expected);
}

void expect_nothing_new(const Counters& before, const Counters& after) {
  EXPECT_EQ(after.plans_built, before.plans_built);
  EXPECT_EQ(after.compilations, before.compilations);
  EXPECT_EQ(after.kernels_loaded, before.kernels_loaded);
  EXPECT_EQ(after.allocations, before.allocations);
}

TEST(InferenceThreads, SteadyStateMakesNothingNew) {
  nn::Sequential model = make_model();
  for (int i = 0; i < 3; ++i) infer(model, i);
  const Counters before = counters();
  const std::uint64_t in_use = memory_stats(test_device()).in_use;
  for (int i = 0; i < 50; ++i) infer(model, i);
  expect_nothing_new(before, counters());
  EXPECT_EQ(counters().submits, before.submits + 50);
  EXPECT_EQ(memory_stats(test_device()).in_use, in_use);
}

TEST(InferenceThreads, SteadyStateOfSeveralThreadsMakesNothingNew) {
  nn::Sequential model = make_model();
  infer(model, 0);
  Counters before;
  std::barrier warm(kThreads, [&]() noexcept { before = counters(); });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) infer(model, i);
      warm.arrive_and_wait();
      for (int i = 0; i < kInputs; ++i) infer(model, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_nothing_new(before, counters());
  EXPECT_EQ(counters().submits, before.submits + kThreads * kInputs);
}

// ---- Forking.

// Trains a few steps on the device; returns whether the result is correct.
bool trains_on(Device device) {
  manual_seed(1);
  nn::Sequential model({{"a", nn::Linear(2, 512)}, {"t", nn::Tanh()}, {"b", nn::Linear(512, 1)}});
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  // Large enough for several threads.
  const Tensor x = rand({512, 2}, {.device = device});
  const Tensor y = (x.narrow(1, 0, 1) * x.narrow(1, 1, 1)).eval();
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    last = loss.item();
    if (step == 0) first = last;
  }
  return last < 0.5 * first;
}

// The exit status of a forked process that runs `act`; -1 if it took more than a minute.
template <class Act>
int status_of_fork(Act act) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 3;
    try {
      status = act();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the forked process: %s\n", error.what());
    }
    _exit(status);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

// Runs in a process that has loaded the library but has not used it.
template <class Body>
void in_fresh_process(Body body) {
  testing_child::Environment environment = {{"VOLTA_NUM_THREADS", "2"}};
  if (!is_child()) environment["VOLTA_TEST_DEVICE"] = to_string(test_device());
  in_child(environment, body);
}

TEST(Forking, BeforeTheFirstUseBothProcessesTrain) {
  in_fresh_process([] {
    const int child = status_of_fork([] {
      const bool cpu = trains_on(Device::cpu());
      return cpu && trains_on(test_device()) ? 0 : 1;
    });
    EXPECT_EQ(child, 0);
    EXPECT_TRUE(trains_on(Device::cpu()));
    EXPECT_TRUE(trains_on(test_device()));
  });
}

TEST(Forking, AfterTheFirstUseTheCpuGoesOn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has no threads in forked processes";
#endif
  in_fresh_process([] {
    EXPECT_TRUE(trains_on(Device::cpu()));
    EXPECT_EQ(threads_of_a_loop(), 2u);
    const Tensor x = rand({1000}).eval();
    const std::vector<float> values = x.to_vector<float>();
    const int child = status_of_fork([&] {
      if (x.to_vector<float>() != values) return 1;
      if (threads_of_a_loop() != 2) return 2;
      if (!trains_on(Device::cpu())) return 4;
      // A forked process may fork again.
      return status_of_fork([] { return trains_on(Device::cpu()) ? 0 : 5; });
    });
    EXPECT_EQ(child, 0);
    EXPECT_TRUE(trains_on(Device::cpu()));
  });
}

// Runs one step of a model of its own; returns the loss after it.
double trained_once(Device device) {
  manual_seed(3);
  nn::Linear a(64, 256, {.device = device}), b(256, 8, {.device = device});
  std::vector<Tensor> parameters = a.parameters();
  for (const Tensor& parameter : b.parameters()) parameters.push_back(parameter);
  optim::Adam optimizer(parameters, {.lr = 0.01});
  const Tensor x = rand({256, 64}, {.device = device});
  const std::vector<std::int64_t> labels(256, 3);
  const Tensor wanted = from_vector(labels, {.device = device});
  const auto loss = [&] { return cross_entropy(b(tanh(a(x))), wanted); };
  loss().backward();
  optimizer.step();
  return loss().item();
}

// Threads record, plan, compute, allocate and log. All locks that they hold when the process forks
// are free in the child, and the guarded data is consistent.
TEST(Forking, WhileOtherThreadsTrainTheCpuGoesOn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has no threads in forked processes";
#endif
  in_fresh_process([] {
    const double expected = trained_once(Device::cpu());
    trained_once(test_device());
    std::atomic<bool> ends{false};
    std::atomic<int> steps{0};
    const auto trains = [&](Device device) {
      for (int i = 0; !ends; ++i) {
        if (i % 3 == 0) {
          trained_once(device);
        } else {  // builds new plans
          const Tensor x = ones({17 + i}, {.device = device}) * 2 + rand({1}, {.device = device});
          x.sum().item();
        }
        ++steps;
      }
    };
    std::thread one(trains, Device::cpu()), other(trains, test_device());
    int failed = 0, last = 0;
    for (int i = 0; i < 120 && failed == 0; ++i) {
      const int now = steps;
      while (steps == now) std::this_thread::yield();
      last = status_of_fork([&] {
        if (trained_once(Device::cpu()) != expected) return 1;
        std::thread again([&] { trained_once(Device::cpu()); });
        again.join();
        return 0;
      });
      failed += last != 0 ? 1 : 0;
    }
    ends = true;
    one.join();
    other.join();
    EXPECT_EQ(failed, 0) << "the forked process gave " << last;
    EXPECT_EQ(trained_once(Device::cpu()), expected);
  });
}

// Values that another thread of the parent had recorded are available in the child, although the
// thread is not.
TEST(Forking, WhatAnotherThreadRecordedIsComputedInTheChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer has no threads in forked processes";
#endif
  in_fresh_process([] {
    Tensor pending;
    std::atomic<int> turn{0};
    std::thread other([&] {
      pending = from_vector<float>({1, 1, 1, 1}) * 3 + 1;
      turn = 1;
      while (turn != 2) std::this_thread::yield();
    });
    while (turn != 1) std::this_thread::yield();
    const int child = status_of_fork([&] {
      if (!pending.is_pending()) return 1;
      return (pending * 2).to_vector<float>() == std::vector<float>(4, 8.0f) ? 0 : 2;
    });
    turn = 2;
    other.join();
    EXPECT_EQ(child, 0);
    EXPECT_EQ(pending.to_vector<float>(), std::vector<float>(4, 4.0f));
  });
}

TEST(Forking, AfterTheFirstUseOtherDevicesAreRefused) {
  if (test_device().is_cpu()) GTEST_SKIP() << "for other devices";
  in_fresh_process([] {
    EXPECT_TRUE(trains_on(test_device()));
    Tensor x = rand({10}, here()).eval();
    synchronize(test_device());
    const int child = status_of_fork([&] {
      const std::string expected =
          to_string(test_device()) +
          ": this process was forked after its parent had used the device; fork before the first "
          "use, or start another program (exec)";
      const auto refused = [&](auto act) {
        try {
          act();
        } catch (const DeviceError& error) {
          if (error.what() == expected) return true;
          std::fprintf(stderr, "%s\n", error.what());
        }
        return false;
      };
      if (!refused([&] { x.to_vector<float>(); })) return 1;
      if (!refused([&] { (x + 1).eval(); })) return 2;
      if (!refused([&] { from_vector<float>({1}, here()); })) return 4;
      if (!refused([&] { synchronize(test_device()); })) return 5;
      if (!trains_on(Device::cpu())) return 6;
      if (Device::gpu() || !Device::best().is_cpu() || !Device::parse("gpu").is_cpu()) return 7;
      if (!trains_on(Device::best())) return 8;
      return 0;
    });
    EXPECT_EQ(child, 0);
    EXPECT_TRUE(trains_on(test_device()));
  });
}

// Work and copies in progress at the fork finish in the parent. In the child they are over, and
// waiting for them throws the reason.
TEST(Forking, EventsOfTheParentEndInTheChild) {
  if (test_device().is_cpu()) GTEST_SKIP() << "for other devices";
  in_fresh_process([] {
    constexpr std::int64_t kWide = 512;
    const Tensor weight = (rand({kWide, kWide}, here()) / (kWide / 2.0)).eval();
    synchronize(test_device());
    Tensor product = weight;
    for (int i = 0; i < 20; ++i) product = matmul(product, weight);
    const Event event = product.eval_async();
    const AsyncValues<float> values = product.to_vector_async<float>();
    const Event on_the_cpu = (rand({100}) + 1).eval_async();
    const int child = status_of_fork([&] {
      const auto refused = [](auto act) {
        try {
          act();
        } catch (const DeviceError& error) {
          if (std::string(error.what()).find("this process was forked") != std::string::npos)
            return true;
          std::fprintf(stderr, "%s\n", error.what());
        }
        return false;
      };
      if (!event.done() || !values.done()) return 1;
      for (int look = 0; look < 2; ++look) {
        if (!refused([&] { event.wait(); })) return 2;
        if (!refused([&] { values.wait(); })) return 4;
        if (!refused([&] { values.get(); })) return 5;
      }
      // New values from one that is computed and from one that is not.
      for (const Tensor& tensor : {weight, weight + 1}) {
        const Event late = tensor.eval_async();
        if (!late.done() || !refused([&] { late.wait(); })) return 6;
        const AsyncValues<float> copied = tensor.to_vector_async<float>();
        if (!copied.done() || !refused([&] { copied.get(); })) return 7;
      }
      on_the_cpu.wait();
      const Event here_too = (rand({100}) + 1).eval_async();
      here_too.wait();
      return on_the_cpu.done() && here_too.done() ? 0 : 8;
    });
    EXPECT_EQ(child, 0);
    event.wait();
    EXPECT_TRUE(event.done());
    EXPECT_EQ(values.get(), product.to_vector<float>());
  });
}

}  // namespace
}  // namespace volta
