// The end of a process with tensors in static objects, whose destructors run before or after those
// of the driver.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/test_device.h"
#include "volta/async.h"
#include "volta/volta.h"

namespace volta {
namespace {

// All states that a tensor may have when the process ends.
struct Kept {
  Tensor computed, pending, weight;
  AsyncValues<float> values;
  bool looks = false;

  void fill() {
    const TensorOptions here = {.device = test_device()};
    computed = (ones({1 << 16}, here) * from_vector<float>({2}, here)).eval();
    pending = computed * 3 + 1;
    weight = tensor({2, 2}, {.device = test_device(), .requires_grad = true});
    (weight * weight).sum().backward();
    values = computed.to_vector_async<float>();
  }
  ~Kept() {
    if (!looks) return;
    if (pending.sum().item() != 7.0 * (1 << 16)) std::_Exit(3);
    {
      const NoGrad no_grad;
      weight -= weight.grad() * 0.25;
    }
    if (weight.to_vector<float>() != std::vector<float>{1, 1}) std::_Exit(4);
    std::_Exit(42);
  }
};

// Created before the device is used, so that it is destroyed after the driver's objects.
Kept& early() {
  static Kept kept;
  return kept;
}
Kept& late() {
  static Kept kept;
  return kept;
}

[[noreturn]] void use_and_exit(bool is_early, bool looks, bool in_a_thread) {
  if (is_early) early();
  const auto use = [&] {
    (ones({4}, {.device = test_device()}) + 1).eval();
    Kept& kept = is_early ? early() : late();
    kept.fill();
    kept.looks = looks;
  };
  if (in_a_thread) {
    std::thread(use).join();
  } else {
    use();
  }
  std::exit(0);
}

class ExitDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ExitDeathTest, TensorsInStaticStorageGo) {
  for (const bool in_a_thread : {false, true}) {
    for (const bool is_early : {true, false}) {
      EXPECT_EXIT(use_and_exit(is_early, false, in_a_thread), testing::ExitedWithCode(0), "");
    }
  }
}

TEST_F(ExitDeathTest, WhatAStaticDestructorEvaluatesIsComputed) {
  if (test_device().type() == DeviceType::cuda) GTEST_SKIP() << "its driver fetches nothing then";
  for (const bool in_a_thread : {false, true}) {
    for (const bool is_early : {true, false}) {
      EXPECT_EXIT(use_and_exit(is_early, true, in_a_thread), testing::ExitedWithCode(42), "");
    }
  }
}

// A module that is called when the thread's own objects, and perhaps all static ones, are gone.
struct CalledLast {
  nn::Linear layer{2, 1};
  ~CalledLast() {
    const Tensor x = ones({3, 2});
    if (!(layer(x).sum().item() == layer(x).sum().item())) std::_Exit(3);
    std::_Exit(42);
  }
};

[[noreturn]] void call_a_module_at_the_end(bool in_a_thread) {
  if (in_a_thread) {
    std::thread([] {
      thread_local CalledLast last;
      last.layer(ones({3, 2})).eval();  // the thread's record of calls is made after `last`
    }).join();
  } else {
    static CalledLast last;
    last.layer(ones({3, 2})).eval();
  }
  std::exit(5);
}

TEST_F(ExitDeathTest, ModulesCanBeCalledAtTheEnd) {
  for (const bool in_a_thread : {false, true})
    EXPECT_EXIT(call_a_module_at_the_end(in_a_thread), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace volta
