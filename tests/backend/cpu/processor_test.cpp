// VOLTA_CPU_ISA makes a machine compute like an older one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/cpu/library/matmul.h"
#include "backend/cpu/vector/processor.h"
#include "backend/cpu/vector/simd_table.h"
#include "support/child.h"
#include "support/errors.h"
#include "volta/volta.h"

namespace volta {
namespace {

using testing_child::in_child;

TEST(Processor, NamesOfInstructionSets) {
  EXPECT_EQ(cpu::parse_instruction_set("avx2"), cpu::InstructionSet::Avx2);
  EXPECT_EQ(cpu::parse_instruction_set("ssse3"), cpu::InstructionSet::Ssse3);
  EXPECT_LT(cpu::InstructionSet::Sse4, cpu::InstructionSet::Avx512);
  errors::expect<ArgumentError>([] { cpu::parse_instruction_set("AVX2"); },
                                "VOLTA_CPU_ISA is 'AVX2'; it must be avx512, avx2, sse4 or ssse3");
}

// Computes products and sums of rows, whose kernels depend on the instruction set.
void compute() {
  const Tensor x = randn({33, 65}), w = randn({65, 17});
  const Tensor y = x.matmul(w).tanh().sum(1);
  const std::vector<double> values = y.to_vector<double>();
  ASSERT_EQ(values.size(), 33u);
  for (const double value : values) EXPECT_TRUE(std::isfinite(value));
}

// Targets beyond the limit are not chosen. Sanitizer builds compile only two targets.
TEST(Processor, TheLimitHoldsForVectorsAndForOneDnn) {
  in_child({{"VOLTA_CPU_ISA", "avx2"}}, [] {
    compute();
    const std::string target = cpu::simd().target;
    EXPECT_TRUE(target.find("AVX3") == std::string::npos) << target;
    EXPECT_FALSE(cpu::onednn_multiplies(DType::bf16));
  });
}
TEST(Processor, TheLowestLimit) {
  in_child({{"VOLTA_CPU_ISA", "sse4"}}, [] {
    compute();
    const std::string target = cpu::simd().target;
    EXPECT_TRUE(target.find("AVX") == std::string::npos) << target;
  });
}

TEST(Processor, AnUnknownLimitIsAnError) {
  in_child({{"VOLTA_CPU_ISA", "mmx"}}, [] {
    EXPECT_THROW(compute(), ArgumentError);
    EXPECT_THROW(compute(), ArgumentError);  // every time, not only the first
  });
}

}  // namespace
}  // namespace volta
