// Every sample, emitted as OpenCL C, compiled and run on the first OpenCL device, gives the results
// of the reference.
#include <gtest/gtest.h>

#include "backend/opencl/opencl_runner.h"

namespace volta::testing {
namespace {

void expect_as_reference(OpenClRunner& runner, const Sample& sample) {
  std::vector<std::vector<Bytes>> expected, actual;
  kernel::ErrorRecord expected_error, actual_error;
  for (const SampleBinding& binding : sample.bindings) {
    expected.push_back(make_buffers(sample, binding));
    actual.push_back(expected.back());
    run_reference(sample.program, binding.ints, pointers(expected.back()), binding.args.data(),
                  &expected_error);
  }
  ASSERT_NO_THROW(runner.run(sample, actual, actual_error)) << sample.name;
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    EXPECT_EQ(compare(sample, sample.bindings[n], expected[n], actual[n]), "") << "binding " << n;
  }
  EXPECT_EQ(actual_error.claimed, sample.bad_index ? 1 : 0) << sample.name;
  EXPECT_EQ(actual_error.claimed, expected_error.claimed) << sample.name;
  EXPECT_EQ(actual_error.site, expected_error.site) << sample.name;
  EXPECT_EQ(actual_error.high, expected_error.high) << sample.name;
  if (sample.bad_index) {
    EXPECT_GE(actual_error.index, actual_error.high) << sample.name;
  }
}

class KernelOpenCl : public ::testing::TestWithParam<Sample> {
 protected:
  static OpenClRunner& runner() {
    static OpenClRunner runner;
    return runner;
  }
};

TEST_P(KernelOpenCl, RunsAsTheReference) {
  if (!runner().present()) GTEST_SKIP() << "no OpenCL device";
  expect_as_reference(runner(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Samples, KernelOpenCl, ::testing::ValuesIn(samples()),
                         [](const auto& info) { return info.param.name; });

using KernelOpenClWide = KernelOpenCl;

TEST_P(KernelOpenClWide, RunsAsTheReference) {
  if (!runner().present()) GTEST_SKIP() << "no OpenCL device";
  Sample sample = GetParam();
  sample.program.schedule.index64 = true;
  expect_as_reference(runner(), sample);
}

INSTANTIATE_TEST_SUITE_P(Samples, KernelOpenClWide,
                         ::testing::Values(elementwise_sample(4), reductions_sample(DType::f32, 64),
                                           softmax_sample(32, 4), gather_sample(DType::i32, true),
                                           adam_sample(4, true), pad_sample()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace volta::testing
