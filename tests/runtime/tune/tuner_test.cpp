// The tuner on an imaginary device: what it chooses, what it stores for the next process, and what
// it leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "backend/shipped_choices.h"
#include "backend/timed_choice.h"
#include "backend/tuning.h"
#include "kernel/kernel_samples.h"
#include "plan/codegen/schedule.h"
#include "runtime/tune/tuner.h"
#include "runtime/tune/tuner_testing.h"
#include "support/child.h"
#include "volta/tuning.h"
#include "volta/volta.h"

namespace volta {
namespace {

using plan::Candidate;
using plan::Unknown;
using testing_child::Folder;
using testing_child::in_child;
using testing_child::is_child;
using tuner_testing::in_process;
using tuner_testing::timings;

class NoDevice final : public Backend {
 public:
  std::string machine = "a GPU; driver 1";

  int device_count() const override { return 1; }
  std::string device_name(int) const override { return "a GPU"; }
  std::string fingerprint(int) const override { return machine; }
  bool device_is_gpu(int) const override { return true; }
  std::uint64_t device_memory(int) const override { return 0; }
  bool supports(int, DType) const override { return true; }
  Address allocate(int, std::size_t) override { return {}; }
  void release(int, Address) override {}
  void upload(int, Address, const void*, std::size_t) override {}
  void download(int, void*, Address, std::size_t) override {}
  void copy(int, Address, Address, std::size_t) override {}
  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps&) override {
    throw BackendError("there is no device");
  }
  void synchronize(int) override {}
};

plan::KernelStep step_of(const testing::Sample& sample, std::vector<std::int64_t> ints,
                         const std::string& label) {
  plan::KernelStep step;
  kernel::Program program = sample.program;
  program.schedule = plan::choose_schedule(program, ints, 1 << 24, true);
  plan::Binding binding{.ints = std::move(ints), .buffers = {}};
  for (std::uint32_t n = 0; n < program.slots.size(); ++n)
    binding.buffers.push_back({plan::BufferRef::Kind::Leaf, n, 0});
  step.program = std::make_shared<const kernel::Program>(std::move(program));
  step.segments.push_back(std::move(binding));
  step.label = label;
  return step;
}

// A map and a softmax, both large.
plan::PlanSteps large_plan(std::int64_t rows = 4096) {
  plan::PlanSteps plan;
  plan.steps = {step_of(testing::elementwise_sample(1), {rows, 4096}, "tanh"),
                step_of(testing::softmax_sample(32, 0), {rows, 1024}, "softmax")};
  plan.costs = {{.bytes_read = 64 << 20, .bytes_written = 64 << 20, .operations = 1},
                {.bytes_read = 16 << 20, .bytes_written = 16 << 20, .operations = 1}};
  plan.leaf_bytes.assign(8, std::uint64_t{64} << 20);
  plan.arg_words = 8;
  return plan;
}

std::string schedule(const plan::PlanSteps& plan, std::size_t step) {
  return kernel::to_text(std::get<plan::KernelStep>(plan.steps[step]).program->schedule);
}
bool tuned(const plan::PlanSteps& plan, std::size_t step) {
  return std::get<plan::KernelStep>(plan.steps[step]).tuned;
}

// Times by candidate name; others take a second.
void set_seconds(std::map<std::string, double> seconds, double* clock = nullptr, double each = 0) {
  plan::TunerHooks hooks;
  hooks.seconds = [seconds = std::move(seconds), clock, each](const Candidate& candidate) {
    if (clock != nullptr) *clock += each;
    const auto found = seconds.find(candidate.name);
    return std::optional(found == seconds.end() ? 1.0 : found->second);
  };
  if (clock != nullptr) hooks.clock = [clock] { return *clock; };
  plan::set_tuner_hooks(std::move(hooks));
}

const std::map<std::string, double> kBetter = {{"map vec 4 threads 512", 0.5},
                                               {"row lanes 256 items 4 vec 4", 0.7}};

// Which of several processes of a test this is.

TEST(Tuner, TheFasterScheduleIsTakenAndTold) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    ASSERT_EQ(schedule(plan, 0), "map vec 4");
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(schedule(plan, 0), "map vec 4 threads 512");
    EXPECT_EQ(schedule(plan, 1), "row lanes 256 items 4 vec 4");
    EXPECT_TRUE(tuned(plan, 0));
    const std::vector<TunedChoice> choices = tuned_choices();
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(choices[0].what, "tanh");  // slower steps come first
    EXPECT_EQ(choices[0].usual, "map vec 4");
    EXPECT_EQ(choices[0].chosen, "map vec 4 threads 512");
    EXPECT_EQ(choices[0].source, TuningSource::Timed);
    EXPECT_DOUBLE_EQ(choices[0].usual_seconds, 1.0);
    EXPECT_DOUBLE_EQ(choices[0].chosen_seconds, 0.5);
    // The second plan of the kind times nothing; sizes of the same class are the same kind.
    const std::uint64_t before = timings();
    plan::PlanSteps again = large_plan(), near = large_plan(5000);
    plan::tune(backend, 0, again, Unknown::Time);
    plan::tune(backend, 0, near, Unknown::Time);
    EXPECT_EQ(schedule(again, 0), "map vec 4 threads 512");
    EXPECT_EQ(schedule(near, 1), "row lanes 256 items 4 vec 4");
    EXPECT_EQ(timings(), before);
    plan::PlanSteps far = large_plan(50000);
    plan::tune(backend, 0, far, Unknown::Time);
    EXPECT_GT(timings(), before);
    // Another driver is timed again.
    const std::uint64_t here = timings();
    backend.machine = "a GPU; driver 2";
    plan::PlanSteps other = large_plan();
    plan::tune(backend, 0, other, Unknown::Time);
    EXPECT_GT(timings(), here);
  });
}

TEST(Tuner, PlantedSlowCandidatesAreNeverChosen) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    std::vector<std::string> seen;
    plan::TunerHooks hooks;
    hooks.plant = [](std::vector<Candidate>& all) {
      Candidate slow = all.front();
      slow.name = "planted";
      all.insert(all.begin() + 1, slow);
    };
    hooks.seconds = [&](const Candidate& candidate) {
      seen.push_back(candidate.name);
      return std::optional(candidate.name == "planted" ? 30.0 : 1.0);
    };
    plan::set_tuner_hooks(hooks);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(std::ranges::count(seen, "planted"), 2);  // once for each kernel
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    EXPECT_FALSE(tuned(plan, 0));
    for (const TunedChoice& choice : tuned_choices()) EXPECT_EQ(choice.chosen, choice.usual);
  });
}

TEST(Tuner, ASecondProcessTimesNothing) {
  const Folder cache;
  const testing_child::Environment place = {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}};
  in_process("first", place, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    // The choice is on disk before it is used.
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_GT(timings(), 0u);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::getenv("VOLTA_CACHE_DIR")),
                            std::filesystem::directory_iterator()),
              2);
  });
  in_process("second", place, [] {
    set_seconds({});
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 4 threads 512");
    EXPECT_EQ(schedule(plan, 1), "row lanes 256 items 4 vec 4");
    EXPECT_EQ(tuned_choices().front().source, TuningSource::Remembered);
  });
  testing_child::Environment off = place;
  off["VOLTA_TUNE"] = "off";
  in_process("off", off, [] {
    set_seconds({});
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    EXPECT_TRUE(tuned_choices().empty());
  });
  // Truncated and changed entries are ignored: the candidates are timed again and written anew.
  if (!is_child()) {
    for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-2, std::ios::end);
      file.put('?');
    }
  }
  in_process("third", place, [] {
    set_seconds({{"map vec 8", 0.5}});
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_GT(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 8");
    EXPECT_EQ(schedule(plan, 1), "row lanes 128 items 8 vec 4");
  });
  in_process("fourth", place, [] {
    set_seconds({});
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 8");
  });
}

// With `read` nothing is timed. Unknown steps keep their defaults in this process and in those that
// resume from its checkpoints.
TEST(Tuner, ReadTimesNothing) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "read"}}, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    EXPECT_EQ(tuned_choices().front().source, TuningSource::Untimed);
    EXPECT_EQ(chosen_candidates().size(), 2u);
    EXPECT_TRUE(export_tuning().empty());
  });
}

TEST(Tuner, AnythingElseThatTheVariableSaysIsAnError) {
  for (const char* value : {"fast", "-1", "2s", "inf", "nan"}) {
    in_process(value, {{"VOLTA_TUNE", value}}, [value] {
      NoDevice backend;
      plan::PlanSteps plan = large_plan();
      try {
        plan::tune(backend, 0, plan, Unknown::Time);
        ADD_FAILURE() << value;
      } catch (const ArgumentError& error) {
        EXPECT_EQ(std::string(error.what()), "VOLTA_TUNE=" + std::string(value) +
                                                 ": expected off, read or a number of seconds");
      }
    });
  }
}

// Each timing takes 0.3 seconds of the simulated clock, so seven fit into two seconds. Steps that
// are not decided by then keep their defaults in this process.
TEST(Tuner, TheBoundHolds) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    double clock = 100;
    set_seconds(kBetter, &clock, 0.3);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 7u);
    EXPECT_NEAR(tuning_seconds_spent(), 2.1, 1e-9);
    const std::vector<TunedChoice> choices = tuned_choices();
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(choices[0].source, TuningSource::Timed);
    EXPECT_EQ(choices[1].source, TuningSource::Untimed);
    EXPECT_EQ(schedule(plan, 1), "row lanes 128 items 8 vec 4");
    // With more time, new kernels are timed; those that have run stay unchanged.
    set_tuning_seconds(100);
    plan::PlanSteps again = large_plan(), far = large_plan(50000);
    plan::tune(backend, 0, again, Unknown::Time);
    EXPECT_EQ(timings(), 7u);
    EXPECT_EQ(schedule(again, 1), "row lanes 128 items 8 vec 4");
    plan::tune(backend, 0, far, Unknown::Time);
    EXPECT_GT(timings(), 7u);
    EXPECT_EQ(schedule(far, 1), "row lanes 256 items 4 vec 4");
  });
}

TEST(Tuner, SmallKernelsAreLeftAlone) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    for (plan::StepCost& cost : plan.costs) cost.bytes_read = cost.bytes_written = 1 << 20;
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_TRUE(tuned_choices().empty());
    EXPECT_TRUE(chosen_candidates().empty());
  });
}

// A plan for one of many sizes waits for no timing, and what it ran with is what later plans run
// with.
TEST(Tuner, WhereSizesVaryNothingIsTimed) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan(), again = large_plan();
    plan::tune(backend, 0, plan, Unknown::KeepDefault);
    plan::tune(backend, 0, again, Unknown::Time);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    EXPECT_EQ(schedule(again, 0), "map vec 4");
    EXPECT_EQ(tuned_choices().front().source, TuningSource::Untimed);
  });
}

// Explaining a plan neither times nor decides anything.
TEST(Tuner, LookingDecidesNothing) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    set_seconds(kBetter);
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Leave);
    EXPECT_EQ(timings(), 0u);
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_GT(timings(), 0u);
    plan::PlanSteps look = large_plan();
    plan::tune(backend, 0, look, Unknown::Leave);
    EXPECT_EQ(schedule(look, 0), "map vec 4 threads 512");
  });
}

// The exported table is used on another machine of the same kind without timing.
TEST(Tuner, AShippedChoiceIsUsedAndTimesNothing) {
  const Folder cache, empty;
  const std::string file = cache / "exported.def";
  in_process("timing", {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}, {"EXPORTED", file}},
             [] {
               set_seconds(kBetter);
               NoDevice backend;
               plan::PlanSteps plan = large_plan();
               plan::tune(backend, 0, plan, Unknown::Time);
               std::ofstream(std::getenv("EXPORTED")) << export_tuning();
             });
  in_process("shipped",
             {{"VOLTA_CACHE_DIR", empty.path()}, {"VOLTA_TUNE", "2"}, {"EXPORTED", file}}, [] {
               std::ifstream in(std::getenv("EXPORTED"));
               const std::string text{std::istreambuf_iterator<char>(in), {}};
               const std::regex line(
                   R"x(VOLTA_SHIPPED_CHOICE\("([^"]*)", "([0-9a-f]{32})", "([^"]*)"\)  // \w+\n)x");
               std::vector<ShippedChoice> table;
               for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at)
                 table.push_back({(*at)[1], (*at)[2], (*at)[3]});
               ASSERT_EQ(table.size(), 2u) << text;
               set_shipped_choices(table);
               set_seconds({});
               NoDevice backend;
               backend.machine = "a GPU; driver 7";  // with any driver
               plan::PlanSteps plan = large_plan();
               plan::tune(backend, 0, plan, Unknown::Time);
               EXPECT_EQ(timings(), 0u);
               EXPECT_EQ(schedule(plan, 0), "map vec 4 threads 512");
               EXPECT_EQ(schedule(plan, 1), "row lanes 256 items 4 vec 4");
               EXPECT_EQ(tuned_choices().front().source, TuningSource::Shipped);
             });
}

// A resumed run computes with the schedules of the run that wrote the checkpoint.
TEST(Tuner, ChoicesTravelInCheckpoints) {
  const Folder cache, other;
  const std::string file = cache / "choices";
  in_process("writer", {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}, {"WAYS", file}},
             [] {
               set_seconds(kBetter);
               NoDevice backend;
               plan::PlanSteps plan = large_plan();
               plan::tune(backend, 0, plan, Unknown::Time);
               std::ofstream out(std::getenv("WAYS"));
               for (const auto& [key, name] : chosen_candidates())
                 out << key << '\n' << name << '\n';
             });
  in_process("reader", {{"VOLTA_CACHE_DIR", other.path()}, {"VOLTA_TUNE", "2"}, {"WAYS", file}},
             [] {
               std::map<std::string, std::string> choices;
               std::ifstream in(std::getenv("WAYS"));
               for (std::string key, name; std::getline(in, key) && std::getline(in, name);)
                 choices[key] = name;
               ASSERT_EQ(choices.size(), 2u);
               adopt_candidates(choices);
               set_seconds({{"map vec 8", 0.1}});
               NoDevice backend;
               plan::PlanSteps plan = large_plan();
               plan::tune(backend, 0, plan, Unknown::Time);
               EXPECT_EQ(timings(), 0u);
               EXPECT_EQ(schedule(plan, 0), "map vec 4 threads 512");
               EXPECT_EQ(tuned_choices().front().source, TuningSource::Adopted);
             });
}

// A device that can neither allocate nor compile changes nothing and stores nothing.
TEST(Tuner, WhatCannotBeTriedStaysUsual) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "2"}}, [] {
    NoDevice backend;
    plan::PlanSteps plan = large_plan();
    plan::tune(backend, 0, plan, Unknown::Time);
    EXPECT_EQ(schedule(plan, 0), "map vec 4");
    EXPECT_EQ(tuned_choices().front().source, TuningSource::Untimed);
    EXPECT_TRUE(std::filesystem::is_empty(std::getenv("VOLTA_CACHE_DIR")));
  });
}

// Algorithms of libraries: `off` uses the first one that works, and nothing that was remembered.
TEST(Tuner, OffHoldsForLibrariesToo) {
  const Folder cache;
  const ChoiceKey choice_key{"a machine", "a product"};
  const std::vector<std::string> names{"broken", "first", "faster"};
  const auto seconds = [](std::size_t candidate) -> std::optional<double> {
    if (candidate == 0) return std::nullopt;
    return candidate == 2 ? 0.1 : 1.0;
  };
  in_process("timed", {{"VOLTA_CACHE_DIR", cache.path()}}, [&] {
    EXPECT_EQ(fastest_candidate(3, seconds, 1), 2u);
    remember_candidate(choice_key, names[2]);
  });
  in_process("off", {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "off"}}, [&] {
    EXPECT_FALSE(remembered_candidate(choice_key, names));
    EXPECT_EQ(fastest_candidate(3, seconds, 1), 1u);
    EXPECT_EQ(timings(), 0u);
    remember_candidate(choice_key, names[1]);
  });
  in_process("again", {{"VOLTA_CACHE_DIR", cache.path()}},
             [&] { EXPECT_EQ(remembered_candidate(choice_key, names), 2u); });
}

}  // namespace
}  // namespace volta
