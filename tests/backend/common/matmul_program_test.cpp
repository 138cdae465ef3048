// The lowering of products to kernel programs, without a device.
#include "backend/common/matmul_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include <cstdint>
#include <vector>

#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"

namespace volta::testing {
namespace {

using Ref = plan::BufferRef;

// The second batch of a^T b, with padded rows.
TEST(MatmulProgramTest, LowersToAReduction) {
  const plan::MatmulStep step{.transpose_a = true,
                              .m = 2,
                              .n = 3,
                              .k = 2,
                              .batch = 2,
                              .lda = 2,
                              .ldb = 4,
                              .ldc = 3,
                              .stride_a = 4,
                              .stride_b = 0,
                              .stride_c = 6,
                              .a = {Ref::Kind::Leaf, 0, 0},
                              .b = {Ref::Kind::Leaf, 1, 0},
                              .c = {Ref::Kind::Output, 0, 0},
                              .offset_b = 1,
                              .label = "matmul"};
  const plan::KernelStep lowered = lower_matmul(step);
  ASSERT_EQ(lowered.segments.size(), 1u);
  EXPECT_EQ(lowered.label, "matmul");
  EXPECT_FALSE(lowered.program->schedule.index64);
  std::vector<Bytes> buffers{bytes_of<float>({0, 0, 0, 0, 1, 2, 3, 4}),
                             bytes_of<float>({9, 1, 2, 3, 9, 4, 5, 6}), Bytes(12 * sizeof(float))};
  run_reference(*lowered.program, lowered.segments[0].ints, pointers(buffers), nullptr, nullptr);
  EXPECT_EQ(buffers[2], bytes_of<float>({0, 0, 0, 0, 0, 0, 13, 17, 21, 18, 24, 30}));
}

TEST(MatmulProgramTest, AddsABiasAndCutsOffWhatIsNegative) {
  plan::MatmulStep step;
  step.m = step.n = step.k = 2;
  step.lda = step.ldb = step.ldc = 2;
  step.has_bias = true;
  step.activation = plan::Activation::Relu;
  step.bias = {Ref::Kind::Leaf, 2, 0};
  const plan::KernelStep lowered = lower_matmul(step);
  std::vector<Bytes> buffers{bytes_of<float>({1, 2, 3, 4}), bytes_of<float>({1, 0, 0, -1}),
                             Bytes(4 * sizeof(float)), bytes_of<float>({-2, 3})};
  run_reference(*lowered.program, lowered.segments[0].ints, pointers(buffers), nullptr, nullptr);
  EXPECT_EQ(buffers[2], bytes_of<float>({0, 1, 1, 0}));
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

plan::MatmulStep row_times_two() {
  plan::MatmulStep step;
  step.m = step.k = 1;
  step.n = 4;
  step.lda = 1;
  step.ldb = step.ldc = 4;
  step.other = {Ref::Kind::Leaf, 3, 0};
  return step;
}

TEST(MatmulProgramTest, GeluKeepsWhatItWasAppliedTo) {
  plan::MatmulStep step = row_times_two();
  step.activation = plan::Activation::Gelu;
  step.keeps_input = true;
  const plan::KernelStep lowered = lower_matmul(step);
  std::vector<Bytes> buffers{bytes_of<float>({2}), bytes_of<float>({-1, 0.25f, 1, 40}),
                             Bytes(4 * sizeof(float)), Bytes(4 * sizeof(float))};
  run_reference(*lowered.program, lowered.segments[0].ints, pointers(buffers), nullptr, nullptr);
  EXPECT_EQ(buffers[3], bytes_of<float>({-2, 0.5f, 2, 80}));
  const auto* results = reinterpret_cast<const float*>(buffers[2].data());
  const double inputs[] = {-2, 0.5, 2, 80};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(results[i], gelu(inputs[i]), 1e-6);
}

TEST(MatmulProgramTest, GradientOfGelu) {
  plan::MatmulStep step = row_times_two();
  step.activation = plan::Activation::GeluGradient;
  const plan::KernelStep lowered = lower_matmul(step);
  std::vector<Bytes> buffers{bytes_of<float>({2}), bytes_of<float>({1, 1, 1, 1}),
                             Bytes(4 * sizeof(float)),
                             bytes_of<float>({-3e30f, -0.7f, 0.3f, 5e9f})};
  run_reference(*lowered.program, lowered.segments[0].ints, pointers(buffers), nullptr, nullptr);
  const auto* results = reinterpret_cast<const float*>(buffers[2].data());
  const auto slope = [](double x) { return (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6; };
  EXPECT_EQ(results[0], 0);
  EXPECT_NEAR(results[1], 2 * slope(-0.7), 1e-6);
  EXPECT_NEAR(results[2], 2 * slope(0.3), 1e-6);
  EXPECT_EQ(results[3], 2);
}

TEST(MatmulProgramTest, LargeOperandsNeedWideIndices) {
  plan::MatmulStep step;
  step.m = step.n = step.k = 4;
  step.lda = step.ldb = step.ldc = 4;
  EXPECT_FALSE(needs_index64(step));
  step.lda = std::int64_t{1} << 30;
  EXPECT_TRUE(needs_index64(step));
  EXPECT_TRUE(lower_matmul(step).program->schedule.index64);
}

}  // namespace
}  // namespace volta::testing
