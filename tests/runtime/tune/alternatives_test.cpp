// A program computes the same results under every schedule that the tuner may try: every
// alternative of every sample, and of the schedules that choose_schedule gives larger sizes,
// against the reference on the first OpenCL device (an eighth of them, unless VOLTA_TEST_FULL is
// set). All of them compile for CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "backend/opencl/opencl_runner.h"
#include "kernel/hash.h"
#include "kernel/vectors.h"
#include "plan/codegen/schedule.h"
#include "runtime/tune/alternative_samples.h"
#include "runtime/tune/alternatives.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

using kernel::Schedule;

class Alternatives : public ::testing::TestWithParam<Sample> {};

TEST_P(Alternatives, RunAsTheReference) {
  static OpenClRunner runner;
  if (!runner.present()) GTEST_SKIP() << "no OpenCL device";
  // A slow compiler gets an eighth of them, the same ones each time; NVRTC gets all.
  const bool all = std::getenv("VOLTA_TEST_FULL") != nullptr;
  std::map<std::vector<std::int64_t>, std::vector<Bytes>> references;
  for (const Sample& sample : alternative_samples(GetParam())) {
    const std::string schedule = kernel::to_text(sample.program.schedule);
    if (!all && kernel::hash_bytes(GetParam().name + schedule) % 8 != 0) continue;
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
  for (const Sample& sample : alternative_samples(GetParam())) {
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::Cuda);
    EXPECT_NO_THROW(nvrtc.compile(source.text, "sm_90"))
        << kernel::to_text(sample.program.schedule);
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, Alternatives, ::testing::ValuesIn(alternative_subjects()),
                         [](const auto& info) { return info.param.name; });

// ---- The list of alternatives.

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
  EXPECT_FALSE(has(all, "map vec 4"));  // the program's own schedule
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

// Values that one thread updates in place stay with one thread.
TEST(AlternativesOf, RowsUpdatedInPlaceKeepTheirThread) {
  for (const std::string& text :
       texts(running_state_sample(1).program, running_state_sample(1).bindings.front().ints))
    EXPECT_EQ(text.find("row lanes 1 "), 0u) << text;
}

// All segments of a horizontal kernel must allow the schedule.
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
