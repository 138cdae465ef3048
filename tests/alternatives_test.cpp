// Whatever schedule the tuner may try for a program, the program computes the same under it: every
// alternative of every sample, and of what choose_schedule gives larger sizes, against the
// reference on the first OpenCL device; all of them compile for CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernel/vectors.h"
#include "nvrtc_compile.h"
#include "opencl_runner.h"
#include "plan/alternatives.h"
#include "plan/schedule.h"

namespace volta::testing {
namespace {

using kernel::Schedule;

plan::Binding numbers(const SampleBinding& binding) {
  return {.ints = binding.ints, .buffers = {}};
}

std::string bare_text(kernel::Program program) {
  program.schedule = {.kind = program.schedule.kind, .horizontal = program.schedule.horizontal};
  return kernel::to_text(program);
}

// y[i, j] = x[j, i] + z[i, j]
Sample turned_sample(std::int64_t m, std::int64_t n) {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(DType::f32), z = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto along = Build::at({{i, columns}, {j, Build::one()}});
  b.store(y, along,
          b.op(Op::add, b.load(x, Build::at({{i, Build::one()}, {j, rows}})), b.load(z, along)));
  return {.name = "turned",
          .program = b.finish(map_schedule()),
          .bindings = {{{m, n}, {m * n, m * n, m * n}, {}}}};
}

// As the planner would schedule it.
Sample planned(Sample sample, std::vector<SampleBinding> bindings, const char* suffix) {
  sample.name += suffix;
  sample.bindings = std::move(bindings);
  const SampleBinding& first = sample.bindings.front();
  const std::int64_t largest = *std::ranges::max_element(first.elements);
  sample.program.schedule = plan::choose_schedule(sample.program, first.ints, largest, true);
  return sample;
}

std::vector<Sample> subjects() {
  std::vector<Sample> all;
  std::set<std::string> seen;  // samples that differ in their schedules only have the same ones
  for (Sample& sample : samples()) {
    if (seen.insert(bare_text(sample.program)).second) all.push_back(std::move(sample));
  }
  const auto rows_of = [](std::int64_t rows, std::int64_t length) {
    return SampleBinding{{rows, length}, {rows * length, rows * length}, {}};
  };
  all.push_back(planned(softmax_sample(32, 0), {rows_of(17, 4099)}, "_4099"));
  all.push_back(planned(
      layer_norm_sample(32, 0),
      {{{2, 20480}, {40960, 20480, 20480, 40960, 2, 2}, {float_arg(1.0 / 20480), float_arg(1e-5)}}},
      "_20480"));
  all.push_back(planned(column_sum_sample(), {{{6, 1 << 17}, {6 << 17, 1 << 17}, {}}}, "_wide"));
  all.push_back(planned(turned_sample(160, 192), {turned_sample(160, 192).bindings}, "_tiles"));
  all.push_back(planned(elementwise_sample(1),
                        {{{512, 1024}, {1 << 19, 1024, 1 << 19, 1 << 19}, {float_arg(0.5)}},
                         {{7, 13}, {91, 13, 91, 91}, {float_arg(0.5)}}},
                        "_large"));
  return all;
}

// Every schedule that some binding of the sample has as an alternative, with the bindings that it
// may be given.
std::vector<Sample> variants(const Sample& sample) {
  std::vector<std::vector<plan::Binding>> segments;
  for (const SampleBinding& binding : sample.bindings) {
    if (!sample.program.schedule.horizontal || segments.empty()) segments.emplace_back();
    segments.back().push_back(numbers(binding));
  }
  std::vector<Sample> all;
  for (const std::vector<plan::Binding>& some : segments) {
    for (const Schedule& schedule : plan::alternatives(sample.program, some)) {
      Sample variant = sample;
      variant.program.schedule = schedule;
      const bool known = std::ranges::any_of(
          all, [&](const Sample& other) { return other.program.schedule == schedule; });
      if (known) continue;
      if (!schedule.horizontal) {
        std::erase_if(variant.bindings, [&](const SampleBinding& binding) {
          return !kernel::schedule_allows(variant.program, binding.ints);
        });
      }
      all.push_back(std::move(variant));
    }
  }
  return all;
}

class Alternatives : public ::testing::TestWithParam<Sample> {};

TEST_P(Alternatives, RunAsTheReference) {
  static OpenClRunner runner;
  if (!runner.present()) GTEST_SKIP() << "no OpenCL device";
  std::map<std::vector<std::int64_t>, std::vector<Bytes>> references;
  for (const Sample& sample : variants(GetParam())) {
    const std::string schedule = kernel::to_text(sample.program.schedule);
    ASSERT_FALSE(sample.bindings.empty()) << schedule;
    std::vector<std::vector<Bytes>> actual;
    for (const SampleBinding& binding : sample.bindings) {
      actual.push_back(make_buffers(sample, binding));
      auto [place, fresh] = references.try_emplace(binding.ints);
      if (!fresh) continue;
      place->second = actual.back();
      kernel::ErrorRecord error;
      run_reference(sample.program, binding.ints, pointers(place->second), binding.args.data(),
                    &error);
    }
    kernel::ErrorRecord error;
    ASSERT_NO_THROW(runner.run(sample, actual, error)) << schedule;
    for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
      EXPECT_EQ(compare(sample, sample.bindings[n], references[sample.bindings[n].ints], actual[n]),
                "")
          << schedule << ", binding " << n;
    }
    EXPECT_EQ(error.claimed, sample.bad_index ? 1 : 0) << schedule;
  }
}

TEST_P(Alternatives, CompileForCuda) {
  static const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  for (const Sample& sample : variants(GetParam())) {
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::Cuda);
    EXPECT_NO_THROW(nvrtc.compile(source.text, "sm_90"))
        << kernel::to_text(sample.program.schedule);
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, Alternatives, ::testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

// ---- What there is to choose from.

std::vector<std::string> texts(const kernel::Program& program, std::vector<std::int64_t> ints) {
  std::vector<std::string> all;
  const plan::Binding binding{.ints = std::move(ints), .buffers = {}};
  for (const Schedule& schedule : plan::alternatives(program, {&binding, 1}))
    all.push_back(kernel::to_text(schedule));
  return all;
}

bool has(const std::vector<std::string>& all, const std::string& text) {
  return std::ranges::find(all, text) != all.end();
}

TEST(AlternativesOf, AMapHasOtherBlocksAndVectors) {
  const std::vector<std::string> all = texts(elementwise_sample(4).program, {1024, 4096});
  for (const char* one :
       {"map vec 1", "map vec 2", "map vec 8", "map vec 4 threads 128", "map vec 4 threads 512"}) {
    EXPECT_TRUE(has(all, one)) << one;
  }
  EXPECT_FALSE(has(all, "map vec 4"));  // its own
}

TEST(AlternativesOf, RowsHaveOtherLanesThatHoldThem) {
  kernel::Program program = softmax_sample(32, 0).program;
  program.schedule = plan::choose_schedule(program, {4096, 1024}, 4 << 20, true);
  ASSERT_EQ(kernel::to_text(program.schedule), "row lanes 128 items 8 vec 4");
  const std::vector<std::string> all = texts(program, {4096, 1024});
  for (const char* one : {"row lanes 256 items 4 vec 4", "row lanes 64 items 16 vec 4",
                          "row lanes 128 items 0 vec 4", "row lanes 128 items 8"}) {
    EXPECT_TRUE(has(all, one)) << one;
  }
}

// What is updated in place by one thread stays one thread's.
TEST(AlternativesOf, RowsUpdatedInPlaceKeepTheirThread) {
  for (const std::string& text :
       texts(running_state_sample(1).program, running_state_sample(1).bindings.front().ints))
    EXPECT_EQ(text.find("row lanes 1 "), 0u) << text;
}

// Side by side, all segments must allow it.
TEST(AlternativesOf, EverySegmentAllowsThem) {
  kernel::Program program = softmax_sample(128, 8).program;
  program.schedule.vec = 4;
  const plan::Binding whole{.ints = {64, 1024}, .buffers = {}},
      odd{.ints = {64, 1022}, .buffers = {}};
  const std::vector<plan::Binding> both{whole, odd};
  for (const Schedule& schedule : plan::alternatives(program, both)) {
    kernel::Program changed = program;
    changed.schedule = schedule;
    EXPECT_TRUE(kernel::schedule_allows(changed, odd.ints)) << kernel::to_text(schedule);
    EXPECT_LE(schedule.vec, 2) << kernel::to_text(schedule);
  }
}

TEST(AlternativesOf, ABlockHasAsManyThreadsAsItSays) {
  kernel::Program program = elementwise_sample(1).program;
  program.schedule.threads = 512;
  EXPECT_EQ(kernel::block_threads(program), 512);
  EXPECT_EQ(kernel::block_count(program, {2, 512}), 2);
  EXPECT_NE(
      kernel::emit(program, kernel::Dialect::OpenCL).text.find("reqd_work_group_size(512, 1, 1)"),
      std::string::npos);
}

}  // namespace
}  // namespace volta::testing
