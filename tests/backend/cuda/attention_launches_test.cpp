// Which variants of the attention kernels the CUDA backend runs, and that NVRTC compiles them all.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include "backend/cuda/attention.h"
#include "support/nvrtc_compile.h"

namespace volta::cuda {
namespace {

using plan::AttentionStep;

constexpr int kMuchMemory = 90, kLittleMemory = 86;  // compute capabilities

// Other sizes are other arguments, and never another text.
TEST(AttentionLaunches, SizesAreArguments) {
  const auto texts = [](std::int64_t batch, std::int64_t heads, std::int64_t length) {
    AttentionStep step;
    step.gradient = true;
    step.batch = batch, step.heads = step.kv_heads = heads;
    step.queries = step.keys = length, step.size = 64;
    step.reads.resize(6);
    step.writes.resize(3);
    std::vector<std::string> all;
    for (const AttentionLaunch& launch : attention_launches(step, kMuchMemory))
      all.push_back(launch.variant.source().text);
    return all;
  };
  EXPECT_EQ(texts(1, 1, 20), texts(32, 12, 1024));
}

TEST(AttentionLaunches, TakeWhatTheyCompute) {
  AttentionStep step;
  step.by = AttentionStep::By::Kernels;
  step.batch = step.heads = step.kv_heads = 1;
  step.queries = step.keys = 10, step.size = 256;
  EXPECT_TRUE(attention_support(step, 80).taken);
  EXPECT_FALSE(attention_support(step, 75).taken);
  step.size = 257;
  EXPECT_FALSE(attention_support(step, 80).taken);
  step.size = 8;
  step.dtype = DType::f32;
  EXPECT_FALSE(attention_support(step, 80).taken);
  step.dtype = DType::bf16;
  step.masked = true;
  step.mask = DType::i32;
  EXPECT_FALSE(attention_support(step, 80).taken);
}

// NVRTC compiles every variant, and what a thread keeps stays in registers.
TEST(AttentionLaunches, CompileWithoutSpills) {
  const char* wanted = std::getenv("VOLTA_TEST_NVRTC");
  if (wanted == nullptr || std::string(wanted) != "1") GTEST_SKIP() << "VOLTA_TEST_NVRTC is not 1";
  const testing::Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "libnvrtc is not installed";
  // Every tile for every device, with the dtypes and masks in turn.
  int number = 0;
  for (const int device : {kMuchMemory, kLittleMemory}) {
    for (const std::int64_t size : {32, 64, 96, 128, 192, 256}) {
      for (const bool gradient : {false, true}) {
        const int kind = ++number % 4;
        AttentionStep step;
        step.gradient = gradient;
        step.causal = number % 5 < 3;
        step.dtype = number % 3 == 0 ? DType::f16 : DType::bf16;
        step.masked = kind >= 2;
        step.mask = kind == 2 ? DType::boolean : step.dtype;
        step.batch = step.heads = step.kv_heads = 1;
        step.queries = step.keys = 64, step.size = size;
        step.reads.resize((gradient ? 6u : 3u) + (step.masked ? 1u : 0u));
        step.writes.resize(3);
        for (const AttentionLaunch& launch : attention_launches(step, device)) {
          const kernel::KernelSource source = launch.variant.source();
          std::string report;
          ASSERT_NO_THROW(report = nvrtc.resources(source.text, "sm_" + std::to_string(device)))
              << source.name;
          std::smatch spilled;
          ASSERT_TRUE(std::regex_search(report, spilled, std::regex("(\\d+) bytes spill stores")))
              << report;
          if (size <= 128) {
            EXPECT_LE(std::stoi(spilled[1]), 300) << source.name << report;
          }
          EXPECT_LE(launch.variant.shared_bytes(), device == kLittleMemory ? 101376u : 163840u)
              << source.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace volta::cuda
