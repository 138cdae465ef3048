// Failures: every backend call of a training step fails once, and so does every request for memory.
// The program gets an error that says what failed and where. It can repeat what it was doing and
// then has the values of a run without failures, in the same amount of memory.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/pool_faults.h"
#include "runtime/fault_training.h"
#include "runtime/faulty_backend.h"
#include "runtime/faulty_process.h"
#include "support/paths.h"
#include "support/test_device.h"
#include "volta/async.h"
#include "volta/profiler.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_faults::damage;
using testing_faults::expect_equal;
using testing_faults::faults;
using testing_faults::forget_plans;
using testing_faults::Outcome;
using testing_faults::refuse;
using testing_faults::requests;
using testing_faults::Training;
using testing_faults::Values;
using testing_faults::with_faults;

constexpr int kSteps = 4;

Outcome train(int failing_step, const std::function<void()>& arm,
              const std::function<void()>& disarm) {
  return testing_faults::train(kSteps, failing_step, arm, disarm);
}

// Every call of one step fails in turn. A first step builds its plans, a later one replays them.
void fail_every_call(int failing_step, bool new_plans, std::set<std::string> must_fail) {
  const auto nothing = [] {};
  if (new_plans) forget_plans();
  Outcome expected = train(failing_step, nothing, nothing);
  if (!new_plans)
    expected = train(failing_step, nothing, nothing);  // the memory includes existing plans
  long calls = 0;
  if (new_plans) forget_plans();
  train(failing_step, [] { faults().count(); }, [&] { calls = faults().calls, faults().count(); });
  ASSERT_GT(calls, 0);
  for (long call = 1; call <= calls; ++call) {
    if (new_plans) forget_plans();
    std::string failed;
    Outcome outcome = train(
        failing_step, [&] { faults().arm(call); },
        [&] {
          if (!faults().failed.empty()) failed = faults().failed;
          faults().count();
        });
    SCOPED_TRACE("call " + std::to_string(call) + " of " + std::to_string(calls) + ", " + failed);
    EXPECT_FALSE(failed.empty());
    if (failed == "supports") {
      // Called inside a layer: earlier layers were called and have counted the batch. Their
      // operations form a plan of their own.
      for (const std::string& name : outcome.changed) EXPECT_EQ(name.find("norm."), 0u) << name;
      if (!outcome.changed.empty()) outcome.memory = expected.memory;
      outcome.changed.clear();
    }
    EXPECT_TRUE(outcome.changed.empty()) << outcome.changed.front();
    expect_equal(outcome, expected);
    for (const std::string& error : outcome.errors) {
      EXPECT_EQ(error.substr(0, error.find(" (in ")),
                to_string(test_device()) + ": " + failed + " failed: injected");
    }
    must_fail.erase(failed);
    // Some failures do no harm, such as memory that the driver does not take back.
    EXPECT_LE(outcome.errors.size(), 1u);
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%ld calls failed in turn\n", calls);
  EXPECT_TRUE(must_fail.empty()) << "never called: " << *must_fail.begin();
}

// A call that the test's backend does not forward would use the default and never fail.
TEST(Faults, TheBackendInFrontHasEveryCall) {
  const auto text = [](const char* name) {
    std::ifstream file(paths::source_tree() + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string header = text("/src/backend/backend.h");
  const std::string in_front = text("/tests/runtime/faulty_backend.h");
  const std::regex declaration(R"(virtual [^(;~]*?(\w+)\()");
  int calls = 0;
  for (std::sregex_iterator found(header.begin(), header.end(), declaration), end; found != end;
       ++found) {
    const std::string name = (*found)[1];
    const std::regex overridden(" " + name + R"(\([^{;]*override)");
    EXPECT_TRUE(std::regex_search(in_front, overridden) || name == "has_passed" || name == "wait")
        << name;
    ++calls;
  }
  EXPECT_GT(calls, 25);
}

TEST(Faults, EveryCallOfAFirstStep) {
  with_faults([] { fail_every_call(0, true, {"upload", "prepare", "run", "take_error"}); });
}

TEST(Faults, EveryCallOfAReplayedStep) {
  with_faults([] { fail_every_call(2, false, {"upload", "run", "take_error"}); });
}

// Copies in streams of their own, and values that are fetched asynchronously.
TEST(Faults, EveryCallOfLargeCopies) {
  with_faults([] {
    std::vector<float> numbers(1 << 16);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000);
    const auto round = [&] {
      const Tensor x = from_vector(numbers, {.device = test_device()});
      const Tensor y = x * 2 + 1, z = y + x;
      const AsyncValues<float> later = z.to_vector_async<float>();
      const std::vector<float> now = y.to_vector<float>();
      return std::pair(now, later.get());
    };
    const auto expected = round();
    round();
    const std::uint64_t memory = testing_faults::in_use();
    // Makes the armed call fail in a round; returns its name, or an empty string if it was not
    // reached.
    const auto fail_once = [&] {
      try {
        // After a failed evaluation, values that are read are computed alone.
        EXPECT_EQ(round(), expected);
      } catch (const BackendError& error) {
        EXPECT_EQ(std::string(error.what()),
                  to_string(test_device()) + ": " + faults().failed + " failed: injected");
      }
      const std::string failed = faults().failed;
      faults().count();
      EXPECT_EQ(round(), expected);
      EXPECT_EQ(testing_faults::in_use(), memory);
      return failed;
    };
    for (long call = 1; call < 100; ++call) {
      SCOPED_TRACE("call " + std::to_string(call));
      faults().arm(call);
      if (fail_once().empty()) break;
    }
    if (test_device().is_cpu()) return;
    // Whether a stream has to wait varies, and so do the numbers of these calls.
    for (const char* name :
         {"upload_in_copy_stream", "download_in_copy_stream", "begin_download", "record_event"}) {
      faults().arm(1);
      faults().only = name;
      EXPECT_EQ(fail_once(), name);
    }
  });
}

// ---- Memory.

// Refuses each request for memory of a step in turn: once, or for as long as the program asks.
void refuse_every_request(int failing_step, bool new_plans, long count) {
  const auto nothing = [] {};
  refuse_allocations(refuse);
  if (new_plans) forget_plans();
  Outcome expected = train(failing_step, nothing, nothing);
  if (!new_plans) expected = train(failing_step, nothing, nothing);
  if (new_plans) forget_plans();
  long made = 0;
  train(failing_step, [] { requests() = {}; }, [&] { made = requests().made, requests() = {}; });
  ASSERT_GT(made, 0);
  for (long request = 1; request <= made; ++request) {
    SCOPED_TRACE("request " + std::to_string(request) + " of " + std::to_string(made));
    if (new_plans) forget_plans();
    const Outcome outcome =
        train(failing_step, [&] { requests() = {0, request, count}; }, [] { requests() = {}; });
    EXPECT_TRUE(outcome.changed.empty());
    expect_equal(outcome, expected);
    if (count == 1) {  // releasing what the runtime does not need is enough
      EXPECT_TRUE(outcome.errors.empty()) << outcome.errors.front();
    } else {
      ASSERT_EQ(outcome.errors.size(), 1u);
      EXPECT_EQ(outcome.errors[0].find(to_string(test_device()) + ": out of memory: "), 0u)
          << outcome.errors[0];
    }
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%ld requests refused in turn\n", made);
  refuse_allocations(nullptr);
}

TEST(Faults, EveryRequestForMemoryOfAFirstStep) {
  with_faults([] {
    refuse_every_request(0, true, 1);
    refuse_every_request(0, true, 1'000'000);
  });
}

TEST(Faults, EveryRequestForMemoryOfAReplayedStep) {
  with_faults([] {
    refuse_every_request(2, false, 1);
    refuse_every_request(2, false, 1'000'000);
  });
}

TEST(Faults, ADeviceThatHasNoMemoryOnceIsAskedAgain) {
  with_faults([] {
    const Tensor factor = from_vector<float>({3}, {.device = test_device()});
    const auto large = [&] {
      return ones({std::int64_t{5} << 20}, {.device = test_device()}) * factor;
    };
    faults().count();
    faults().no_memory = true;
    Tensor first = large().eval();
    const long requests = faults().calls;
    ASSERT_GT(requests, 0);
    for (long request = 1; request <= requests; ++request) {
      first = {};
      synchronize(test_device());
      empty_cache(test_device());
      faults().arm(request);
      faults().no_memory = true;
      first = large();
      EXPECT_EQ(first.narrow(0, 5, 1).item<float>(), 3.0f);
      EXPECT_EQ(faults().failed, "allocate");
    }
    faults().count();
  });
}

// Memory that the backend itself needs: the pool releases its cached chunks, then the plan is
// prepared for little memory.
TEST(Faults, APlanThatFindsNoMemoryIsPreparedAgain) {
  with_faults([] {
    const Tensor factor = from_vector<float>({3}, {.device = test_device()});
    const auto sized = [&](int more) {
      return ones({(std::int64_t{5} << 20) + more}, {.device = test_device()}) * factor;
    };
    for (const int missing : {1, 2, 100}) {
      SCOPED_TRACE(missing);
      sized(0).eval();  // dropped, and cached by the pool
      const MemoryStats before = memory_stats(test_device());
      ASSERT_GE(before.reserved, before.in_use + (20u << 20));
      const Tensor small = sized(missing).narrow(0, 5, 1);
      faults().count();
      faults().unprepared = missing;
      if (missing == 100) {
        EXPECT_THROW(small.item<float>(), OutOfMemory);
      } else {
        EXPECT_EQ(small.item<float>(), 3.0f);
        std::vector<bool> low_memory(static_cast<std::size_t>(missing) + 1, true);
        low_memory[0] = false;
        EXPECT_EQ(faults().preparations, low_memory);
      }
      EXPECT_LT(memory_stats(test_device()).reserved, before.reserved);
      faults().count();
      EXPECT_EQ(small.item<float>(), 3.0f);
    }
  });
}

TEST(Faults, MemoryThatTheDeviceDoesNotTakeBackIsForgotten) {
  with_faults([] {
    Tensor large = ones({std::int64_t{5} << 20}, {.device = test_device()}) *
                   from_vector<float>({3}, {.device = test_device()});
    large.eval();
    large = {};
    synchronize(test_device());
    const std::uint64_t reserved = memory_stats(test_device()).reserved;
    faults().arm(1);
    faults().only = "release";
    set_log_level(LogLevel::off);  // logs an error that cannot be thrown
    empty_cache(test_device());
    set_log_level(LogLevel::warning);
    EXPECT_EQ(faults().failed, "release");
    EXPECT_LE(memory_stats(test_device()).reserved + (std::uint64_t{20} << 20), reserved);
  });
}

TEST(Faults, ARecordingEndsThoughItsDeviceFails) {
  with_faults([] {
    const Tensor x = from_vector<float>({1, 2, 3}, {.device = test_device()});
    {
      Profiler profiler;
      (x * 2).eval();
      faults().arm(1);
      faults().only = "flush_profile";
      set_log_level(LogLevel::off);
      profiler.stop();
      EXPECT_EQ(faults().failed, "flush_profile");
    }
    faults().count();
    Profiler another;  // throws if another one is still recording
    (x * 3).eval();
    synchronize(test_device());
    EXPECT_FALSE(another.stop().events.empty());
  });
}

TEST(Faults, AnIndexThatNobodyCouldCheckIsNotTakenForAGoodOne) {
  with_faults([] {
    if (test_device().is_cpu()) return;  // the CPU checks at once
    const Tensor table = from_vector<float>({1, 2, 3}, {3, 1}, {.device = test_device()});
    const Tensor ids = from_vector<std::int64_t>({0, 7}, {.device = test_device()});
    const Tensor rows = embedding(table, ids);
    submit(test_device());
    faults().arm(1);
    faults().only = "take_error";
    EXPECT_THROW(rows.to_vector<float>(), BackendError);
    EXPECT_EQ(faults().failed, "take_error");
    faults().count();
    EXPECT_THROW(rows.to_vector<float>(), IndexError);
  });
}

// ---- Halfway.

TEST(Faults, WhatAStepOverwroteBeforeItFailedIsLostAndCanBeLoadedAgain) {
  with_faults([] {
    const auto nothing = [] {};
    train(3, nothing, nothing);
    const Outcome expected = train(3, nothing, nothing);
    const Outcome outcome = train(
        3,
        [] {
          faults().arm(1);
          faults().after_run = true;
        },
        [] { faults().count(); });
    ASSERT_EQ(outcome.errors.size(), 1u);
    EXPECT_EQ(outcome.errors[0], to_string(test_device()) + ": run failed: injected");
    EXPECT_GT(outcome.lost, 0);
    EXPECT_TRUE(outcome.changed.empty());
    EXPECT_EQ(outcome.losses, expected.losses);
    for (const auto& [name, values] : expected.values)
      EXPECT_EQ(outcome.values.at(name), values) << name;
  });
}

TEST(Faults, AStepAfterALossSaysWhatIsMissing) {
  with_faults([] {
    Training training;
    for (int step = 0; step < 3; ++step) training.step(step);
    const Training::Snapshot before = training.snapshot();
    faults().arm(1);
    faults().after_run = true;
    EXPECT_THROW(training.step(3), BackendError);
    faults().count();
    EXPECT_GT(damage(training, before).lost, 0);
    try {
      training.step(3);
      FAIL() << "a step with parameters that are lost";
    } catch (const BackendError& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, std::string(error.what()).find(" (in ")),
                to_string(test_device()) +
                    ": a value is lost, as the step that updates it in place failed halfway; load "
                    "it again: " +
                    to_string(test_device()) + ": run failed: injected");
    }
  });
}

}  // namespace
}  // namespace volta
