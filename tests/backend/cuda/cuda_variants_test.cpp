// The choice of the captured form of a plan for a run, which is bookkeeping without a device; and
// that the kernels around captured graphs compile.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backend/cuda/own_kernels.h"
#include "backend/cuda/variants.h"
#include "support/nvrtc_compile.h"

namespace volta::testing {
namespace {

using cuda::VariantTable;

// Address vectors of two leaves, one output and an arena.
class CudaVariants : public ::testing::Test {
 protected:
  VariantTable::Choice choose(std::uint64_t a, std::uint64_t b, std::uint64_t out,
                              std::uint64_t arena = 9000) {
    const std::vector<std::uint64_t> addresses{a, b, out, arena};
    return table_.choose(addresses);
  }
  using Action = VariantTable::Action;
  VariantTable table_{{64, 64}, {8}, 512};
};

TEST_F(CudaVariants, KnownAddressesReplay) {
  EXPECT_EQ(choose(1000, 2000, 3000).action, Action::Capture);
  EXPECT_EQ(choose(1000, 2000, 3000).action, Action::Replay);
  const auto other = choose(1000, 2000, 4000);
  EXPECT_EQ(other.action, Action::Capture);
  EXPECT_EQ(other.variant, 1u);
  EXPECT_EQ(choose(1000, 2000, 3000).variant, 0u);
}

TEST_F(CudaVariants, WhatMovesBecomesVolatileAndAlternatingStateDoesNot) {
  int captures = 0;
  for (std::uint64_t n = 0; n < 100; ++n) {
    const auto choice = choose(n % 2 == 0 ? 1000 : 2000, 5000, 10000 + 16 * n);
    EXPECT_NE(choice.action, Action::Eager);
    captures += choice.action == Action::Capture;
  }
  EXPECT_EQ(captures, 10);  // eight, then one for each half of the alternation
  EXPECT_FALSE(table_.is_volatile(0));
  EXPECT_FALSE(table_.is_volatile(1));
  EXPECT_TRUE(table_.is_volatile(2));
  EXPECT_FALSE(table_.is_volatile(3));
}

// A training step whose batch reuses one of several earlier addresses, while a gradient and the
// state alternate between two addresses each, at different rates.
TEST_F(CudaVariants, OnlyWhatMovesMostIsCopied) {
  std::uint64_t random = 1;
  int late = 0;
  for (std::uint64_t n = 0; n < 400; ++n) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const auto choice = choose(1000 + 100 * (random >> 60), n % 2 == 0 ? 5000 : 6000,
                               n / 3 % 2 == 0 ? 10000 : 20000);
    EXPECT_NE(choice.action, Action::Eager);
    late += choice.action == Action::Capture && n > 40 ? 1 : 0;
  }
  EXPECT_EQ(late, 0);
  EXPECT_TRUE(table_.is_volatile(0));
  EXPECT_FALSE(table_.is_volatile(1));
  EXPECT_FALSE(table_.is_volatile(2));
}

// Labels at any address; the batch, a weight and a counter alternate between two addresses each.
TEST(CudaVariantsOfAStep, LargeThingsThatAlternateStayWhereTheyAre) {
  VariantTable table({1024, 400000, 4}, {1600000}, 0);
  int late = 0;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    const std::vector<std::uint64_t> addresses{1000 + 2000 * (n % 7), 1000000 * (1 + n / 2 % 2),
                                               500000 + 256 * (n / 3 % 2),
                                               10000000 * (1 + n / 5 % 2), 0};
    const auto choice = table.choose(addresses);
    EXPECT_NE(choice.action, VariantTable::Action::Eager);
    late += choice.action == VariantTable::Action::Capture && n > 100 ? 1 : 0;
  }
  EXPECT_EQ(late, 0);
  EXPECT_TRUE(table.is_volatile(0));
  EXPECT_FALSE(table.is_volatile(1));
  EXPECT_TRUE(table.is_volatile(2));  // one of the three must be, and it is the smallest
  EXPECT_FALSE(table.is_volatile(3));
}

TEST_F(CudaVariants, CapturesAreBounded) {
  int captures = 0;
  for (std::uint64_t n = 0; n < 3000; ++n) {
    // Each address changes at its own rate.
    const auto choice = choose(1000 + 100 * (n / 2 % 50), 100000 + 100 * (n / 100),
                               200000 + 16 * (n / 7 % 90), 500000 + 1024 * (n / 1000));
    EXPECT_NE(choice.action, Action::Eager);
    captures += choice.action == Action::Capture;
  }
  EXPECT_LE(captures,
            static_cast<int>(VariantTable::kMaxVariants) * (VariantTable::kMaxRounds + 1));
}

TEST_F(CudaVariants, DonatedBuffersShareASlot) {
  for (std::uint64_t n = 0; n < 9; ++n) choose(1000 * (n + 1), 90000, 1000 * (n + 1));
  EXPECT_TRUE(table_.is_volatile(0));
  EXPECT_TRUE(table_.is_volatile(2));
  EXPECT_EQ(table_.slot(0), table_.slot(2));
  EXPECT_FALSE(table_.is_volatile(1));
  EXPECT_EQ(choose(7000, 90000, 7000).action, Action::Replay);
  // Aliasing other than that for which the slots were laid out: correct, but not fast.
  EXPECT_EQ(choose(7000, 90000, 8000).action, Action::Eager);
  EXPECT_EQ(choose(7000, 90000, 7032).action, Action::Eager);
  EXPECT_EQ(choose(7000, 8000, 8000).action, Action::Eager);
}

TEST(CudaOwnKernels, Compile) {
  const Nvrtc nvrtc;
  if (!nvrtc.present()) GTEST_SKIP() << "needs NVRTC";
  static_assert(sizeof(cuda::SlotCopyList) <= 4096);
  for (const char* architecture : {"sm_75", "sm_90"}) {
    for (const auto& source : {cuda::readback_kernel(), cuda::slot_copy_kernel()}) {
      EXPECT_FALSE(nvrtc.compile(source.text, architecture).empty()) << source.name;
      EXPECT_NE(source.text.find(source.name), std::string::npos);
    }
    // Copies are read from the kernel parameters, not from per-thread copies of them.
    EXPECT_NE(nvrtc.resources(cuda::slot_copy_kernel().text, architecture).find("0 bytes stack"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace volta::testing
