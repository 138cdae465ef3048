// The kernels of a plan are compiled in parallel.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernel/parallel_compile.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TEST(ParallelCompile, TwoThreadsAreInTheCompilerAtOnce) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  kernel::compile_parallel(2, [&](std::size_t) {
    ++inside;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (inside.load() < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    if (inside.load() == 2) met = true;
  });
  EXPECT_TRUE(met);
  EXPECT_GE(kernel::compile_stats().most_threads, 2u);
}

TEST(ParallelCompile, EveryKernelIsCompiledOnceAndTheFirstFailureIsThrown) {
  std::vector<std::atomic<int>> times(50);
  kernel::compile_parallel(times.size(), [&](std::size_t i) { ++times[i]; });
  for (const auto& count : times) EXPECT_EQ(count, 1);
  std::atomic<int> compiled{0};
  try {
    kernel::compile_parallel(20, [&](std::size_t i) {
      if (i == 7 || i == 13) throw std::runtime_error(std::to_string(i));
      ++compiled;
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "7");
  }
  EXPECT_EQ(compiled, 18);
  kernel::compile_parallel(0, [](std::size_t) { FAIL(); });
}

TEST(ParallelCompile, APlanHandsOverAllItsKernelsAtOnce) {
  if (test_device().is_cpu()) GTEST_SKIP() << "the CPU executes programs as they are";
  // Four kernels that no other test has; the rows of one cannot be the columns of the next.
  const Tensor x = rand({37, 41}, {.device = test_device()}).eval();
  const Tensor a = (x.sin().expm1() * 3).sum(0), b = (a.cos().log1p() * x).tanh().max(1);
  const Tensor c = (b.reshape({37, 1}).erf() + x.floor()).abs().sum(0);
  const Tensor d = (c.sigmoid() - x.rsqrt()).square().sum();
  EXPECT_GE(explain(d).kernels(), 3);
  d.item();
  EXPECT_GE(kernel::compile_stats().most_kernels, 3u);
}

}  // namespace
}  // namespace volta
