// Compiled programs are owned by plans; the latest ones are kept as well, and all others are freed.
#include "backend/common/program_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plan/every_program.h"
#include "runtime/runner.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TEST(ProgramTable, KeepsTheLatestAndWhatIsOwned) {
  ProgramTable<const int> table(4);
  const auto owned = table.insert("owned", std::make_shared<const int>(-1));
  for (int i = 0; i < 100; ++i) table.insert(std::to_string(i), std::make_shared<const int>(i));
  EXPECT_EQ(table.find("owned"), owned);
  EXPECT_EQ(table.find("95"), nullptr);
  ASSERT_NE(table.find("99"), nullptr);
  EXPECT_EQ(*table.find("99"), 99);
  EXPECT_LE(table.live(), 6u);
  EXPECT_LE(table.size(), 16u);
}

TEST(ProgramTable, TheOneThatIsThereWins) {
  ProgramTable<const int> table;
  const auto first = table.insert("text", std::make_shared<const int>(1));
  EXPECT_EQ(table.insert("text", std::make_shared<const int>(2)), first);
}

TEST(ProgramTable, FindingKeepsAProgramAmongTheLatest) {
  ProgramTable<const int> table(2);
  table.insert("a", std::make_shared<const int>(1));
  table.insert("b", std::make_shared<const int>(2));
  table.find("a");
  table.insert("c", std::make_shared<const int>(3));
  EXPECT_NE(table.find("a"), nullptr);
  EXPECT_EQ(table.find("b"), nullptr);
}

TEST(ProgramTable, KeepsProgramsUpToANumberOfBytes) {
  ProgramTable<const int> table(100, 1000);
  const auto owned = table.insert("owned", std::make_shared<const int>(-1), 5000);
  for (int i = 0; i < 20; ++i) table.insert(std::to_string(i), std::make_shared<const int>(i), 300);
  EXPECT_EQ(table.find("0"), nullptr);
  EXPECT_NE(table.find("19"), nullptr);
  EXPECT_LE(table.live(), 4u);
  EXPECT_EQ(table.find("owned"), owned);
  EXPECT_GE(table.bytes(), 5000u);
  table.drop_unused();
  EXPECT_EQ(table.live(), 1u);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.find("owned"), owned);
}

// A different chain of operations, and so a different program, for every number.
Tensor chain(Tensor x, int number) {
  for (int bit = 0; bit < 12; ++bit) x = (number >> bit & 1) != 0 ? x.sin() : x.abs();
  return x;
}

TEST(ProgramTable, ThousandsOfStructuresKeepABoundedNumberOfPrograms) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "thousands of kernels take a compiler too long";
  const testing::NoProgramsCollected uncollected;
  const Tensor x = ones({8}).exp().eval();
  const std::uint64_t compiled = counters().compilations;
  for (int number = 0; number < 3000; ++number) chain(x, number).eval();
  EXPECT_GE(counters().compilations - compiled, 2900u);
  EXPECT_LE(plan::cache_stats(test_device()).programs,
            plan::kMaxPlans + ProgramTable<const int>::kRecent);
  const std::uint64_t before = counters().compilations;
  for (int number = 2900; number < 3000; ++number) chain(x, number).eval();
  EXPECT_EQ(counters().compilations, before);
}

}  // namespace
}  // namespace volta
