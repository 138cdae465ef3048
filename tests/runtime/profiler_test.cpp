// Profiles: the recorded events, the sums of rows, the trace, and that nothing is recorded without
// a profiler.
#include "volta/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "core/profiling.h"
#include "encoding/json.h"
#include "platform/files.h"
#include "runtime/placement/device_times.h"
#include "runtime/profile/recorder.h"
#include "runtime/runner.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

// A small network that is trained for some steps.
class Training {
 public:
  explicit Training(std::int64_t width = 64)
      : model_({nn::Linear(32, width), nn::ReLU(), nn::Linear(width, 10)}) {
    model_.to(test_device());
    x_ = randn({16, 32}, {.device = test_device()});
    y_ = randn({16, 10}, {.device = test_device()});
    x_.eval();
    y_.eval();
    optimizer_.emplace(model_.parameters(), optim::AdamOptions{.lr = 1e-3});
  }
  Tensor step() {
    optimizer_->zero_grad();
    const Tensor loss = mse_loss(model_(x_), y_);
    loss.backward();
    optimizer_->step();
    return loss;
  }

 private:
  nn::Sequential model_;
  Tensor x_, y_;
  std::optional<optim::Adam> optimizer_;
};

bool is_work(const ProfileEvent& event) { return event.kind != "host" && event.kind != "range"; }
bool is_step(const ProfileEvent& event) {
  return is_work(event) && event.kind != "upload" && event.kind != "download" &&
         event.kind != "copy";
}

TEST(Profiler, RecordsEveryStepOfEveryRun) {
  Training training;
  for (int i = 0; i < 4; ++i) training.step().item();  // the last steps replay a CUDA graph
  {
    const Profiler first;
  }  // devices without figures have been measured
  const Counters before = counters();
  Profiler profiler;
  constexpr int kSteps = 5;
  for (int i = 0; i < kSteps; ++i) training.step();
  const Profile profile = profiler.stop();
  const Counters after = counters();
  EXPECT_EQ(after.plans_built, before.plans_built);
  const auto steps = std::count_if(profile.events.begin(), profile.events.end(), is_step);
  EXPECT_EQ(static_cast<std::uint64_t>(steps),
            after.launches - before.launches + after.library_calls - before.library_calls);
  std::map<std::string, std::uint64_t> calls;
  for (const ProfileRow& row : profile.rows) {
    if (row.kind == "matmul") calls[row.what] += row.calls;
    if (row.kind != "kernel" && row.kind != "matmul") continue;
    EXPECT_EQ(row.device, test_device());
    EXPECT_EQ(row.calls % kSteps, 0u) << row.what;
    EXPECT_GT(row.seconds, 0) << row.what;
    EXPECT_GT(row.bytes, 0u) << row.what;
  }
  for (const ProfileEvent& event : profile.events) {
    EXPECT_GE(event.start, is_work(event) ? -1e-3 : 0) << event.what;
    EXPECT_LE(event.start + event.seconds, profile.seconds + 1e-3) << event.what;
  }
}

TEST(Profiler, StepsFollowEachOther) {
  Training training;
  training.step().item();
  Profiler profiler;
  for (int i = 0; i < 6; ++i) training.step();
  const Profile profile = profiler.stop();
  double end = -1;
  for (const ProfileEvent& event : profile.events) {
    if (!is_step(event)) continue;
    EXPECT_GE(event.start, end - 2e-6) << event.what;  // clocks are read to a microsecond
    end = std::max(end, event.start + event.seconds);
  }
  EXPECT_GT(end, 0);
}

TEST(Profiler, SharesAddUpToTheTimeAtWork) {
  Training training;
  training.step().item();
  Profiler profiler;
  for (int i = 0; i < 3; ++i) training.step().item();
  const Profile profile = profiler.stop();
  double shares = 0, seconds = 0;
  for (const ProfileRow& row : profile.rows) {
    if (row.kind == "host" || row.kind == "range" || row.device != test_device()) continue;
    shares += row.share;
    seconds += row.seconds;
  }
  const double busy = profile.busy_seconds(test_device());
  EXPECT_GT(busy, 0);
  EXPECT_LE(busy, profile.seconds * 1.001);
  EXPECT_NEAR(shares, seconds / busy, 1e-9);
  EXPECT_NEAR(shares, 1, 0.05);
}

// The bytes and operations of a step are those of explain().
TEST(Profiler, RowsSayWhatExplainSays) {
  const Tensor a = ones({64, 128}, {.device = test_device()});
  const Tensor b = ones({128, 32}, {.device = test_device()});
  const Tensor warm = matmul(a + 0, b + 0);
  warm.eval();
  const Tensor x = a + 1, y = b * 2;
  x.eval();
  y.eval();
  const Tensor z = relu(matmul(x, y) * 3);
  std::map<std::string, StepInfo> told;
  for (const StepInfo& step : explain(z).steps) told[step.kind + step.what] = step;
  Profiler profiler;
  z.eval();
  const Profile profile = profiler.stop();
  std::size_t found = 0;
  for (const ProfileRow& row : profile.rows) {
    const auto step = told.find(row.kind + row.what);
    if (step == told.end()) continue;
    ++found;
    EXPECT_EQ(row.bytes, step->second.bytes_read + step->second.bytes_written);
    EXPECT_EQ(row.operations, step->second.operations);
    // Where explain() knows no figures of the device, the profiler measures them.
    if (step->second.seconds > 0) {
      EXPECT_EQ(row.memory_bound, step->second.memory_bound);
    }
    EXPECT_GT(row.peak_share, 0);  // from figures of the driver, or measured
  }
  EXPECT_EQ(found, told.size());
}

TEST(Profiler, CopiesHaveTheirBytes) {
  if (test_device().is_cpu()) GTEST_SKIP() << "nothing is copied";
  const std::vector<float> values(5000, 1.5f);
  Profiler profiler;
  const Tensor x = from_vector(values, {5000}, {.device = test_device()});
  const std::vector<float> back = (x * 2).to_vector<float>();
  const Profile profile = profiler.stop();
  EXPECT_EQ(back.at(17), 3.0f);
  std::map<std::string, std::uint64_t> bytes;
  for (const ProfileEvent& event : profile.events) bytes[event.kind] += event.bytes;
  EXPECT_EQ(bytes["upload"], 20000u);
  EXPECT_EQ(bytes["download"], 20000u);
}

TEST(Profiler, MemoryIsACurve) {
  Profiler profiler;
  {
    const Tensor x = rand({1 << 18}, {.device = test_device()});
    x.eval();
  }
  const Profile profile = profiler.stop();
  std::uint64_t most = 0, last = 0;
  double at = 0;
  for (const ProfileMemory& sample : profile.memory) {
    if (sample.device != test_device()) continue;
    EXPECT_GE(sample.at, at);
    EXPECT_GE(sample.reserved, sample.in_use);
    at = sample.at;
    last = sample.in_use;
    most = std::max(most, sample.in_use);
  }
  EXPECT_GE(most, last + (1u << 20));
}

TEST(Profiler, RangesAndThreadsHaveNames) {
  Profiler profiler;
  {
    const ProfileRange range("outer");
    const ProfileRange inner("inner");
    std::thread([] { const ProfileRange other("other thread"); }).join();
  }
  const Profile profile = profiler.stop();
  std::map<std::string, const ProfileEvent*> ranges;
  for (const ProfileEvent& event : profile.events) {
    if (event.kind == "range") ranges[event.what] = &event;
  }
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_LE(ranges["outer"]->start, ranges["inner"]->start);
  EXPECT_GE(ranges["outer"]->seconds, ranges["inner"]->seconds);
  EXPECT_EQ(ranges["outer"]->thread, ranges["inner"]->thread);
  EXPECT_NE(ranges["outer"]->thread, ranges["other thread"]->thread);
}

TEST(Profiler, RangesOpenAtTheEndCountUntilThen) {
  auto profiler = std::make_unique<Profiler>();
  auto range = std::make_unique<ProfileRange>("open");
  std::unique_ptr<ProfileRange> of_other;
  std::thread([&] { of_other = std::make_unique<ProfileRange>("of another thread"); }).join();
  const Profile first = profiler->stop();
  Profiler second;
  range.reset();  // not a part of the second recording
  of_other.reset();
  EXPECT_TRUE(second.stop().events.empty());
  std::map<std::string, ProfileEvent> ranges;
  for (const ProfileEvent& event : first.events) {
    if (event.kind == "range") ranges[event.what] = event;
  }
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_NE(ranges["open"].thread, ranges["of another thread"].thread);
  for (const auto& [name, event] : ranges) {
    EXPECT_GE(event.start, 0) << name;
    EXPECT_NEAR(event.start + event.seconds, first.seconds, 1e-9) << name;
  }
}

TEST(Profiler, NamesMayBeAnyBytes) {
  Profiler profiler;
  {
    const ProfileRange range("a\"b\\c\n\xff\x01 \xe2\x82\xac \xe2\x82 \xc2\x9b");
  }
  const Profile profile = profiler.stop();
  const std::string name = "a\"b\\c\n\uFFFD\x01 \u20AC \uFFFD\uFFFD \u009B";
  ASSERT_EQ(profile.events.size(), 1u);
  EXPECT_EQ(profile.events[0].what, name);
  EXPECT_NE(profile.table().find("range: a\"b\\c\\n\uFFFD\\x01 \u20AC \uFFFD\uFFFD \\u009b\n"),
            std::string::npos)
      << profile.table();
  const testing_child::Folder folder;
  profile.save_trace(folder / "trace.json");
  const std::string text = platform::read_file(folder / "trace.json");
  EXPECT_NO_THROW(io::parse_json(text, "trace"));
  EXPECT_NE(text.find(io::json_quoted(name)), std::string::npos) << text;
}

TEST(Profiler, PlanningAndCompilingAreHostTime) {
  Profiler profiler;
  const Tensor x = ones({37, 41}, {.device = test_device()});
  ((x * 2 + 1).sum() - 5).item();
  const Profile profile = profiler.stop();
  std::set<std::string> told;
  double host = 0;
  for (const ProfileRow& row : profile.rows) {
    if (row.kind != "host") continue;
    told.insert(row.what);
    EXPECT_GE(row.seconds, 0) << row.what;
    host += row.seconds;
  }
  EXPECT_TRUE(told.contains("planning"));
  EXPECT_TRUE(told.contains("compiling"));
  EXPECT_TRUE(told.contains(test_device().is_cpu() ? "running" : "submitting"));
  EXPECT_LE(host, profile.seconds);  // nested spans count once
}

TEST(Profiler, NothingIsRecordedWithoutOne) {
  EXPECT_EQ(profiling::session(), 0u);
  Training training;
  training.step().item();
  Profiler profiler;
  EXPECT_TRUE(profiler.stop().events.empty());
  EXPECT_EQ(profiling::session(), 0u);
}

TEST(Profiler, OneAtATime) {
  Profiler first;
  EXPECT_THROW(Profiler second, ArgumentError);
  first.stop();
  EXPECT_THROW(first.stop(), ArgumentError);
  Profiler third;  // stopped by its destructor
}

TEST(Profiler, KeepsNoMoreThanAsked) {
  Training training;
  for (int i = 0; i < 3; ++i) training.step().item();  // builds the plans
  Profiler profiler({.memory = false, .most_events = 40});
  for (int i = 0; i < 30; ++i) training.step().item();
  const Profile profile = profiler.stop();
  EXPECT_GT(profile.dropped, 0u);
  EXPECT_TRUE(profile.memory.empty());
  if (test_device().type() == DeviceType::cuda) {
    EXPECT_LE(profile.events.size(), 40u + 60u);  // a graph is one event until it is split
  } else {
    EXPECT_EQ(profile.events.size(), 40u);
  }
  Training again;
  for (int i = 0; i < 3; ++i) again.step().item();
  Profiler all({.memory = false});
  for (int i = 0; i < 30; ++i) again.step().item();
  const std::size_t whole = all.stop().events.size();
  // A graph is one event until it is split, and is dropped as one.
  if (test_device().type() == DeviceType::cuda) {
    EXPECT_GE(whole, profile.events.size() + profile.dropped);
  } else {
    EXPECT_EQ(whole, profile.events.size() + profile.dropped);
  }
  EXPECT_NE(profile.table().find("more than were kept"), std::string::npos);
}

// Memory records do not count as events.
TEST(Profiler, KeepsAsManyAsAsked) {
  Profiler profiler({.most_events = 3});
  std::vector<Tensor> held;
  for (int i = 0; i < 5; ++i) {
    held.push_back(rand({1 << 16}, {.device = test_device()}).eval());
    const ProfileRange range("range");
  }
  const Profile profile = profiler.stop();
  EXPECT_EQ(profile.events.size(), 3u);
  EXPECT_EQ(profile.memory.size(), 3u);
  EXPECT_GT(profile.dropped, 0u);
}

// Of three runs of two steps, one had its steps timed, which took 20 each: 100 of 150, 50 of 150.
TEST(Profiler, RunsAreSplitAsTheirSamplesSay) {
  using profiling::Span;
  const Device device = Device::cpu();
  const std::vector<profiling::DeviceEvent> spans = {
      {device, 0, {.kind = Span::Kind::Sample, .plan = 7, .step = 0, .begin = 0, .end = 120}},
      {device, 0, {.kind = Span::Kind::Sample, .plan = 7, .step = 1, .begin = 120, .end = 190}},
      {device, 0, {.kind = Span::Kind::Run, .plan = 7, .begin = 200, .end = 350}},
      {device, 0, {.kind = Span::Kind::Upload, .bytes = 4, .begin = 350, .end = 360}},
      {device, 0, {.kind = Span::Kind::Run, .plan = 7, .begin = 400, .end = 550}},
      {device, 0, {.kind = Span::Kind::Run, .plan = 8, .begin = 600, .end = 650}}};
  const auto split = profiling::split_runs(spans);
  ASSERT_EQ(split.size(), 8u);
  const auto expect = [&](std::size_t i, Span::Kind kind, std::uint32_t step, std::int64_t begin,
                          std::int64_t end) {
    EXPECT_EQ(split[i].span.kind, kind) << i;
    EXPECT_EQ(split[i].span.step, step) << i;
    EXPECT_NEAR(static_cast<double>(split[i].span.begin), static_cast<double>(begin), 1) << i;
    EXPECT_NEAR(static_cast<double>(split[i].span.end), static_cast<double>(end), 1) << i;
  };
  expect(0, Span::Kind::Step, 0, 0, 100);
  expect(1, Span::Kind::Step, 1, 100, 150);
  expect(2, Span::Kind::Step, 0, 200, 300);
  expect(3, Span::Kind::Step, 1, 300, 350);
  expect(4, Span::Kind::Upload, 0, 350, 360);
  expect(5, Span::Kind::Step, 0, 400, 500);
  expect(6, Span::Kind::Step, 1, 500, 550);
  expect(7, Span::Kind::Run, 0, 600, 650);
}

// The values are the same with a profiler, and training continues after it.
TEST(Profiler, ChangesNothing) {
  const auto losses = [](bool profiled) {
    manual_seed(3);
    Training training;
    std::vector<double> all;
    for (int i = 0; i < 4; ++i) all.push_back(training.step().item());
    if (profiled) {
      Profiler profiler;
      for (int i = 0; i < 4; ++i) all.push_back(training.step().item());
      profiler.stop();
    }
    while (all.size() < 12) all.push_back(training.step().item());
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

TEST(Profiler, TheTraceIsChromes) {
  Training training;
  training.step().item();
  Profiler profiler;
  {
    const ProfileRange range("a \"step\"\n");
    training.step().item();
  }
  const Profile profile = profiler.stop();
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / "volta-trace.json").string();
  profile.save_trace(path);
  const io::JsonValue trace = io::parse_json(platform::read_file(path), path);
  std::filesystem::remove(path);
  const auto member = [](const io::JsonValue& value, const std::string& key) {
    for (const io::JsonMember& m : *value.as_object()) {
      if (m.key == key) return &m.value;
    }
    return static_cast<const io::JsonValue*>(nullptr);
  };
  std::size_t complete = 0, counters = 0;
  std::set<std::string> processes, names;
  for (const io::JsonValue& event : *member(trace, "traceEvents")->as_array()) {
    const std::string phase = *member(event, "ph")->as_string();
    const std::string name = *member(event, "name")->as_string();
    complete += phase == "X";
    counters += phase == "C";
    if (phase == "X") names.insert(name);
    if (phase == "M" && name == "process_name")
      processes.insert(*member(*member(event, "args"), "name")->as_string());
  }
  EXPECT_EQ(complete, profile.events.size());
  EXPECT_EQ(counters, profile.memory.size());
  EXPECT_TRUE(processes.contains("program"));
  EXPECT_TRUE(processes.contains(to_string(test_device())));
  EXPECT_TRUE(names.contains("a \"step\"\n"));
  EXPECT_THROW(profile.save_trace("/nonexistent/trace.json"), IoError);
}

TEST(Profiler, TheTableHasTheLongestFirst) {
  Training training(512);
  training.step().item();
  Profiler profiler;
  for (int i = 0; i < 3; ++i) training.step().item();
  const Profile profile = profiler.stop();
  std::ostringstream text;
  text << profile;
  EXPECT_NE(text.str().find(to_string(test_device()) + ": at work for"), std::string::npos);
  EXPECT_NE(text.str().find("matmul"), std::string::npos);
  EXPECT_TRUE(std::is_sorted(
      profile.rows.begin(), profile.rows.end(),
      [](const ProfileRow& a, const ProfileRow& b) { return a.seconds > b.seconds; }));
  EXPECT_NE(profile.table(1).find("others"), std::string::npos);
}

// A broken driver of a device that the program does not use has no effect.
TEST(Profiler, MeasuresNoDeviceThatIsNotUsed) {
  const testing_child::Folder folder;
  testing_child::in_child({{"VOLTA_CACHE_DIR", folder / "cache"}}, [] {
    const std::vector<Device> present = devices();
    (rand({4}) + 1).eval();
    Profiler profiler;
    profiler.stop();
    EXPECT_EQ(graph::measurements(), 1) << "of the CPU alone";
    for (const Device device : present) {
      if (!device.is_cpu()) {
        EXPECT_EQ(plan::cache_stats(device).runs, 0u) << to_string(device);
      }
    }
  });
}

}  // namespace
}  // namespace volta
