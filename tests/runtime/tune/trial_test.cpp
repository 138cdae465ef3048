// Trials of the tuner beside the program: the memory that they take and what they count. They run
// in separate processes, on the device of the suite.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "core/counting.h"
#include "kernel/kernel_samples.h"
#include "plan/codegen/schedule.h"
#include "runtime/faulty_backend.h"
#include "runtime/tune/tuner.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/counters.h"
#include "volta/tuning.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_child::Folder;
using testing_child::in_child;
using testing_child::is_child;
using testing_faults::faults;
using testing_faults::taken;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The child uses the CPU for everything else and gets the name of the device to try on.
testing_child::Environment timing_on_the_device(const Folder& cache) {
  testing_child::Environment changes = {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "120"}};
  if (!is_child()) changes["TUNED_DEVICE"] = to_string(test_device());
  return changes;
}
DeviceEntry& tuned_device() { return device_entry(Device::parse(std::getenv("TUNED_DEVICE"))); }

// Two candidates per kernel, because compiling takes a while on a CPU.
void try_two_of_each() {
  plan::TunerHooks hooks;
  hooks.least_bytes = kMiB;
  hooks.plant = [](std::vector<plan::Candidate>& all) {
    if (all.size() > 2) all.resize(2);
  };
  plan::set_tuner_hooks(hooks);
}

// One kernel that reads and writes 4 MiB.
plan::PlanSteps plan_of(std::int64_t rows, const std::string& label) {
  kernel::Program program = testing::elementwise_sample(1).program;
  plan::Binding binding{.ints = {rows, static_cast<std::int64_t>(kMiB) / rows}, .buffers = {}};
  program.schedule = plan::choose_schedule(program, binding.ints, 1 << 24, true);
  plan::PlanSteps plan;
  for (std::uint32_t n = 0; n < program.slots.size(); ++n)
    binding.buffers.push_back({plan::BufferRef::Kind::Leaf, n, 0});
  plan.leaf_bytes.assign(program.slots.size(), 4 * kMiB);
  plan.arg_words = static_cast<std::uint32_t>(program.args.size()) + 1;
  plan::KernelStep step;
  step.program = std::make_shared<const kernel::Program>(std::move(program));
  step.segments.push_back(std::move(binding));
  step.label = label;
  plan.steps = {std::move(step)};
  plan.costs = {{.bytes_read = 4 * kMiB, .bytes_written = 4 * kMiB, .operations = 1}};
  return plan;
}

TuningSource tune(DeviceEntry& entry, std::int64_t rows, const std::string& label) {
  plan::PlanSteps plan = plan_of(rows, label);
  const std::lock_guard lock(entry.lock);
  plan::tune(entry.backend, entry.index, plan, plan::Unknown::Time);
  const std::vector<TunedChoice> choices = tuned_choices();
  return choices.empty() || choices.back().what != label ? TuningSource::Adopted
                                                         : choices.back().source;
}

TEST(Trials, StayWithinTheMemoryLimit) {
  const Folder cache;
  in_child(timing_on_the_device(cache), [] {
    testing_faults::put_faulty_backends_in_place();
    try_two_of_each();
    DeviceEntry& entry = tuned_device();
    // The number of buffer sets that a trial uses: eight, fewer, none.
    const auto taken_under = [&](std::uint64_t limit, std::int64_t rows, TuningSource expected) {
      set_memory_limit(entry.device, limit);
      const std::size_t before = taken().now;
      taken().most = before;
      EXPECT_EQ(tune(entry, rows, std::to_string(rows)), expected) << limit;
      EXPECT_EQ(taken().now, before) << limit;
      return taken().most - before;
    };
    const std::uint64_t reserved = memory_stats(entry.device).reserved;
    const std::size_t set = taken_under(0, 1024, TuningSource::Timed) / 8;
    EXPECT_GE(set, 8 * kMiB);
    EXPECT_EQ(taken_under(reserved + 5 * set, 2048, TuningSource::Timed), 2 * set);
    EXPECT_EQ(taken_under(reserved + 2 * set - 1, 4096, TuningSource::Untimed), 0u);
    EXPECT_EQ(taken_under(1, 8192, TuningSource::Untimed), 0u);  // less than is in use
  });
}

// Whatever fails in a trial, its memory is released and the plan is unchanged.
TEST(Trials, GiveMemoryBackWhenTheyFail) {
  const Folder cache;
  in_child(timing_on_the_device(cache), [] {
    testing_faults::put_faulty_backends_in_place();
    try_two_of_each();
    DeviceEntry& entry = tuned_device();
    std::int64_t rows = 64;
    for (const char* call : {"upload", "copy", "run", "prepare"}) {
      const std::size_t before = taken().now;
      faults().arm(1);
      faults().only = call;
      EXPECT_NE(tune(entry, rows *= 2, call), TuningSource::Adopted);
      EXPECT_EQ(faults().failed, call);
      EXPECT_EQ(taken().now, before) << call;
      faults().count();
    }
  });
}

// A program with just enough memory for its tensors.
TEST(Trials, AProgramAtItsLimitRuns) {
  const Folder cache;
  in_child(timing_on_the_device(cache), [] {
    testing_faults::put_faulty_backends_in_place();
    try_two_of_each();
    const Device device = tuned_device().device;
    constexpr std::uint64_t kLimit = 48 * kMiB;
    set_memory_limit(device, kLimit);
    const Tensor host = rand({3, std::int64_t{1} << 20}).eval();
    const std::vector<float> values = host.to_vector<float>();
    taken().now = taken().most = 0;
    taken().bytes.clear();
    const Tensor x = host.to(device);
    const Tensor y = (x * 2.0).eval(), z = (y + 1.0).eval();
    const std::vector<float> results = z.to_vector<float>();
    if (device != Device::cpu()) {
      EXPECT_LE(taken().most, kLimit);
      EXPECT_GE(taken().most, 24 * kMiB);
    }
    for (std::size_t i = 0; i < values.size(); i += 1001) {
      ASSERT_FLOAT_EQ(results[i], values[i] * 2 + 1);
    }
  });
}

// counters() has every launch of the program and none of a trial, whichever thread launches
// meanwhile.
TEST(Trials, OtherThreadsLaunchesCount) {
  const Folder cache;
  in_child(timing_on_the_device(cache), [] {
    try_two_of_each();
    DeviceEntry& entry = tuned_device();
    const bool real = !entry.device.is_cpu();  // on the CPU the lock keeps them apart
    const Tensor x = rand({64}).eval();
    (x + 1).eval();
    const std::uint64_t start = counters().launches, timed = counters().timings;
    std::atomic<bool> stop{false};
    std::uint64_t launched = 0;
    std::jthread other([&] {
      for (; !stop || launched == 0; ++launched) {
        if (real) {
          (x + 1).eval();
        } else {
          count(live_counters().launches);
        }
      }
    });
    for (const std::int64_t rows : {64, 256, 1024})
      EXPECT_EQ(tune(entry, rows, std::to_string(rows)), TuningSource::Timed);
    stop = true;
    other.join();
    EXPECT_GE(counters().timings - timed, 6u);
    EXPECT_GT(launched, 10u);
    EXPECT_EQ(counters().launches - start, launched);
  });
}

}  // namespace
}  // namespace volta
