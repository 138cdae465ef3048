// Tuning on a real device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "backend/timed_choice.h"
#include "runtime/tune/tuner.h"
#include "runtime/tune/tuner_testing.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/counters.h"
#include "volta/tuning.h"
#include "volta/volta.h"

namespace volta {
namespace {

using plan::Candidate;
using testing_child::Folder;
using testing_child::in_child;
using testing_child::is_child;
using tuner_testing::in_process;
using tuner_testing::timings;

// Returns a program with the same result and many more instructions: x + 0 * sin(sin(...)).
std::shared_ptr<const kernel::Program> slowed(const kernel::Program& program) {
  kernel::Program slow = program;
  const auto store = std::ranges::find_if(
      slow.instrs, [](const kernel::Instr& i) { return i.kind == kernel::InstrKind::Store; });
  const auto at = static_cast<int>(store - slow.instrs.begin());
  const int value = store->a;
  std::vector<kernel::Instr> more;
  for (int n = 0; n < 30; ++n) {
    more.push_back({.kind = kernel::InstrKind::Op,
                    .op = kernel::ScalarOp::sin,
                    .a = n == 0 ? value : at + n - 1});
  }
  const int zero = at + static_cast<int>(more.size());
  more.push_back({.kind = kernel::InstrKind::Const, .constant = 0});
  more.push_back(
      {.kind = kernel::InstrKind::Op, .op = kernel::ScalarOp::mul, .a = zero, .b = zero - 1});
  more.push_back(
      {.kind = kernel::InstrKind::Op, .op = kernel::ScalarOp::add, .a = value, .b = zero + 1});
  kernel::Instr last = *store;
  last.a = zero + 2;
  slow.instrs.erase(slow.instrs.begin() + at, slow.instrs.end());
  slow.instrs.insert(slow.instrs.end(), more.begin(), more.end());
  slow.instrs.push_back(last);
  kernel::validate(slow);
  return std::make_shared<const kernel::Program>(std::move(slow));
}

Device device_to_tune() {
  const char* name = std::getenv("TUNED_DEVICE");
  return Device::parse(name != nullptr ? name : "opencl:0");
}
std::optional<Device> device_if_any() {
  try {
    return device_to_tune();
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

struct Values {
  std::vector<float> map, rows;
};
// Large enough to keep a GPU busy for longer than a launch takes.
Values compute(Device device) {
  manual_seed(5);
  const std::int64_t rows = device_to_tune().type() == DeviceType::cuda ? 8192 : 128;
  const Tensor x = randn({rows, 2048}).to(device);
  Values values;
  values.map = (x * 1.5 + 0.25).to_vector<float>();
  values.rows = softmax(x, -1).to_vector<float>();
  return values;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-6f + 1e-5f * std::fabs(b[i])) << i;
}

// The planted candidates take many times as long and are not chosen. Results are those of the
// default schedules, and the next process uses the same choices and times nothing.
TEST(Tuner, TunesOnADevice) {
  const Folder cache;
  const bool cuda = !is_child() && test_device().type() == DeviceType::cuda;
  if (!cuda && !device_if_any()) GTEST_SKIP() << "no OpenCL device";
  testing_child::Environment place = {{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "120"}};
  if (!is_child()) place["TUNED_DEVICE"] = cuda ? "cuda:0" : "opencl:0";
  plan::TunerHooks hooks;
  hooks.least_bytes = 1 << 20;
  hooks.plant = [](std::vector<Candidate>& all) {
    all.resize(std::min<std::size_t>(all.size(), 3));  // compiling takes a while on a CPU
    const auto& usual = std::get<plan::KernelStep>(all.front().step);
    if (usual.program->schedule.kind != kernel::ScheduleKind::Map) return;
    plan::KernelStep slow = usual;
    slow.program = slowed(*usual.program);
    all.push_back({slow, "planted"});
  };
  in_process("first", place, [&] {
    plan::set_tuner_hooks(hooks);
    const std::uint64_t launches = counters().launches;
    const Values values = compute(device_to_tune());
    // randn() runs on the CPU, and trials do not count.
    EXPECT_EQ(counters().launches - launches, 3u);
    EXPECT_GE(timings(), 6u);
    const std::vector<TunedChoice> choices = tuned_choices();
    ASSERT_EQ(choices.size(), 2u);
    for (const TunedChoice& choice : choices) {
      EXPECT_EQ(choice.source, TuningSource::Timed) << choice.what;
      EXPECT_NE(choice.chosen, "planted") << choice.what;
      EXPECT_GT(choice.usual_seconds, 0);
      EXPECT_LE(choice.chosen_seconds, choice.usual_seconds);
    }
    const Values cpu = compute(Device::cpu());
    expect_near(values.map, cpu.map);
    expect_near(values.rows, cpu.rows);
  });
  in_process("second", place, [&] {
    plan::set_tuner_hooks(hooks);
    const Values values = compute(device_to_tune());
    EXPECT_EQ(timings(), 0u);
    ASSERT_EQ(tuned_choices().size(), 2u);
    for (const TunedChoice& choice : tuned_choices())
      EXPECT_EQ(choice.source, TuningSource::Remembered) << choice.what;
    // The bits are the same each time.
    const Values again = compute(device_to_tune());
    EXPECT_EQ(values.map, again.map);
    EXPECT_EQ(values.rows, again.rows);
    expect_near(values.rows, compute(Device::cpu()).rows);
  });
}

// Explanations show the schedule that steps run with.
TEST(Tuner, ExplainShowsATunedSchedule) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "120"}}, [] {
    const std::optional<Device> found = device_if_any();
    if (!found) GTEST_SKIP() << "no OpenCL device";
    const Device device = *found;
    plan::TunerHooks hooks;
    hooks.least_bytes = 1 << 16;
    hooks.seconds = [](const Candidate& candidate) {
      return std::optional(candidate.name.ends_with(" threads 512") ? 0.5 : 1.0);
    };
    plan::set_tuner_hooks(hooks);
    const Tensor x = rand({256, 1024}).to(device);
    const float first = x.to_vector<float>()[0];
    const auto shown = [&] {
      const Tensor y = x * 3.0;
      std::ostringstream text;
      text << explain(y);
      EXPECT_EQ(y.to_vector<float>()[0], 3.0f * first);
      return text.str();
    };
    EXPECT_EQ(shown().find("tuned"), std::string::npos);  // nothing is known yet
    EXPECT_NE(shown().find("map, tuned: map vec 1 threads 512"), std::string::npos) << shown();
  });
}

// Of changing sizes only the first is timed: later ones run at once.
TEST(Tuner, NewSizesAreNotTimed) {
  const Folder cache;
  in_child({{"VOLTA_CACHE_DIR", cache.path()}, {"VOLTA_TUNE", "120"}}, [] {
    const std::optional<Device> found = device_if_any();
    if (!found) GTEST_SKIP() << "no OpenCL device";
    const Device device = *found;
    plan::TunerHooks hooks;
    hooks.least_bytes = 1 << 16;
    hooks.seconds = [](const Candidate&) { return std::optional(1.0); };
    plan::set_tuner_hooks(hooks);
    const auto tripled = [&](std::int64_t rows) {
      const Tensor x = rand({rows, 1024}).to(device);
      EXPECT_EQ((x * 3.0).to_vector<float>().back(), 3.0f * x.to_vector<float>().back());
    };
    tripled(256);
    const std::uint64_t first = timings();
    EXPECT_GT(first, 0u);
    for (const std::int64_t rows : {257, 600, 200, 599, 2000}) tripled(rows);
    EXPECT_EQ(timings(), first);
  });
}

}  // namespace
}  // namespace volta
