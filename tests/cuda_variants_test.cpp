// Which captured form of a plan serves a run: pure bookkeeping, tested without a device.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backend/cuda/variants.h"

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
  EXPECT_EQ(captures, 6);  // four, then one per half of the alternation
  EXPECT_FALSE(table_.is_volatile(0));
  EXPECT_FALSE(table_.is_volatile(1));
  EXPECT_TRUE(table_.is_volatile(2));
  EXPECT_FALSE(table_.is_volatile(3));
}

TEST_F(CudaVariants, CapturesAreBounded) {
  int captures = 0;
  for (std::uint64_t n = 0; n < 3000; ++n) {
    // Each address moves in its own time.
    const auto choice = choose(1000 + 100 * (n / 2 % 50), 100000 + 100 * (n / 100),
                               200000 + 16 * (n / 7 % 90), 500000 + 1024 * (n / 1000));
    EXPECT_NE(choice.action, Action::Eager);
    captures += choice.action == Action::Capture;
  }
  EXPECT_LE(captures,
            static_cast<int>(VariantTable::kMaxVariants) * (VariantTable::kMaxRounds + 1));
}

TEST_F(CudaVariants, DonatedBuffersShareASlot) {
  for (std::uint64_t n = 0; n < 5; ++n) choose(1000 * (n + 1), 90000, 1000 * (n + 1));
  EXPECT_TRUE(table_.is_volatile(0));
  EXPECT_TRUE(table_.is_volatile(2));
  EXPECT_EQ(table_.slot(0), table_.slot(2));
  EXPECT_FALSE(table_.is_volatile(1));
  EXPECT_EQ(choose(7000, 90000, 7000).action, Action::Replay);
  // Other aliasing than the slots were laid out for: right, if not fast.
  EXPECT_EQ(choose(7000, 90000, 8000).action, Action::Eager);
  EXPECT_EQ(choose(7000, 90000, 7032).action, Action::Eager);
  EXPECT_EQ(choose(7000, 8000, 8000).action, Action::Eager);
}

}  // namespace
}  // namespace volta::testing
