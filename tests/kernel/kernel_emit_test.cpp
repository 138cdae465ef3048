// The C emitter: every sample is valid, compiles for CUDA, and has the launch shape of its
// schedule.
#include <gtest/gtest.h>

#include <cstdio>

#include "kernel/emit.h"
#include "kernel/kernel_samples.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

TEST(KernelEmit, EverySampleIsValid) {
  for (const Sample& sample : samples()) {
    EXPECT_NO_THROW(kernel::validate(sample.program)) << sample.name;
  }
}

TEST(KernelEmit, EverySampleCompilesUnderNvrtc) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  int compiled = 0;
  for (Sample& sample : samples()) {
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::Cuda);
    EXPECT_NO_THROW(EXPECT_FALSE(nvrtc.compile(source.text, "sm_90").empty())) << sample.name;
    ++compiled;
  }
  std::printf("%d kernels compiled\n", compiled);
}

TEST(KernelEmit, WideIndicesCompileUnderNvrtc) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  for (Sample sample :
       {elementwise_sample(4), reductions_sample(DType::f32, 64), softmax_sample(32, 4),
        gather_sample(DType::i32, false), adam_sample(4, true), pad_sample()}) {
    sample.program.schedule.index64 = true;
    const kernel::KernelSource source = kernel::emit(sample.program, kernel::Dialect::Cuda);
    EXPECT_NO_THROW(EXPECT_FALSE(nvrtc.compile(source.text, "sm_90").empty())) << sample.name;
  }
}

TEST(KernelEmit, NameFollowsTheProgramAlone) {
  const kernel::Program program = column_sum_sample().program;
  EXPECT_EQ(kernel::emit(program, kernel::Dialect::Cuda).name,
            kernel::emit(program, kernel::Dialect::OpenCL).name);
  EXPECT_NE(kernel::emit(program, kernel::Dialect::Cuda).name,
            kernel::emit(pad_sample().program, kernel::Dialect::Cuda).name);
}

TEST(KernelEmit, SourceIncludesNothingAndKnowsNoOtherDialect) {
  for (const Sample& sample : samples()) {
    const std::string cuda = kernel::emit(sample.program, kernel::Dialect::Cuda).text;
    const std::string opencl = kernel::emit(sample.program, kernel::Dialect::OpenCL).text;
    EXPECT_EQ(cuda.find("#include"), std::string::npos) << sample.name;
    EXPECT_EQ(opencl.find("#include"), std::string::npos) << sample.name;
    EXPECT_EQ(cuda.find("__global "), std::string::npos) << sample.name;
    EXPECT_EQ(opencl.find("__restrict__"), std::string::npos) << sample.name;
  }
}

TEST(KernelEmit, DoublesAreEnabledOnlyWhereUsed) {
  const auto opencl = [](const Sample& sample) {
    return kernel::emit(sample.program, kernel::Dialect::OpenCL).text;
  };
  EXPECT_EQ(opencl(elementwise_sample(4)).find("cl_khr_fp64"), std::string::npos);
  EXPECT_NE(opencl(all_ops_sample(DType::f64)).find("cl_khr_fp64"), std::string::npos);
}

TEST(KernelEmit, OneAxisNeedsNoDivision) {
  const std::string text = kernel::emit(adam_sample(1, false).program, kernel::Dialect::Cuda).text;
  const std::string body = text.substr(text.find("__global__"));
  EXPECT_EQ(body.find(" / "), std::string::npos) << body;
}

TEST(KernelEmit, BlocksCoverTheIterationSpace) {
  const kernel::Program map = elementwise_sample(4).program;
  EXPECT_EQ(kernel::block_threads(map), 256);
  EXPECT_EQ(kernel::block_count(map, {17, 37}), 1);   // 17 * 10 chunks
  EXPECT_EQ(kernel::block_count(map, {100, 37}), 4);  // 1000 chunks
  EXPECT_EQ(kernel::block_count(map, {0, 37}), 0);
  EXPECT_EQ(kernel::block_count(map, {5, 0}), 0);
  EXPECT_EQ(kernel::block_count(scalar_sample().program, {}), 1);

  const kernel::Program wide = softmax_sample(256, 0).program;
  EXPECT_EQ(kernel::block_threads(wide), 256);
  EXPECT_EQ(kernel::block_count(wide, {13, 700}), 13);
  EXPECT_EQ(kernel::block_count(wide, {13, 0}), 13);

  const kernel::Program narrow = softmax_sample(4, 0).program;
  const std::int64_t rows_per_block = kernel::block_threads(narrow) / 4;
  EXPECT_EQ(kernel::block_count(narrow, {rows_per_block, 9}), 1);
  EXPECT_EQ(kernel::block_count(narrow, {rows_per_block + 1, 9}), 2);
}

TEST(KernelEmit, RowOfTheHorizontalTable) {
  // first block, one integer, six slots, first argument word
  EXPECT_EQ(kernel::row_words(adam_sample(1, true).program), 9);
}

}  // namespace
}  // namespace volta::testing
