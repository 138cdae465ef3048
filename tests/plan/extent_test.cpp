// Open sizes: what arithmetic decides without guards, which decisions become guards, and that
// formulas give other sizes the numbers and decisions that planning at those sizes would give.
#include "plan/lower/extent.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "plan/lower/batch_sizes.h"

namespace volta::plan {
namespace {

// The guard that bounds a symbol always exists.
std::size_t guards(const OpenSizes& sizes) { return sizes.formulas({}).guards(); }

TEST(Extents, EqualPolynomialsAreEqualWithoutAGuard) {
  OpenSizes sizes;
  const Extent s = sizes.symbol(10), t = sizes.symbol(40);
  EXPECT_TRUE((s + t) * (s - t) == s * s - t * t);
  EXPECT_TRUE((s * t * 6) / (t * 2) == 3 * s);
  EXPECT_TRUE((64 * s) % 4 == 0);
  EXPECT_TRUE(s * t + 1 > 0);
  EXPECT_TRUE(s > 1);
  EXPECT_FALSE(s == 1);
  EXPECT_TRUE(s < t);  // their orders of magnitude differ
  EXPECT_EQ(guards(sizes), 2u);
}

TEST(Extents, DecisionsAreGuards) {
  OpenSizes sizes;
  const Extent s = sizes.symbol(10);
  EXPECT_TRUE(s % 4 != 0);
  EXPECT_FALSE(s > 12);
  EXPECT_FALSE(3 * s > 36);  // the same decision again
  const OpenSizes::Formulas formulas = sizes.formulas({});
  std::vector<std::int64_t> values;
  for (std::int64_t other = 2; other < 100; ++other) {
    const bool alike = other >= 8 && other <= 12 && other % 4 != 0;
    EXPECT_EQ(formulas.evaluate(std::vector{other}, values), alike) << other;
  }
  EXPECT_EQ(formulas.guards(), 2u);
}

TEST(Extents, AFixedSizeAllowsNoOther) {
  OpenSizes sizes;
  const Extent s = sizes.symbol(10);
  const std::int64_t number = s;
  EXPECT_EQ(number, 10);
  const OpenSizes::Formulas formulas = sizes.formulas({});
  std::vector<std::int64_t> values;
  EXPECT_TRUE(formulas.evaluate(std::vector<std::int64_t>{10}, values));
  EXPECT_FALSE(formulas.evaluate(std::vector<std::int64_t>{11}, values));
  EXPECT_EQ(formulas.guard_texts(), std::vector<std::string>{"s0 = 10"});
}

TEST(Extents, OutsideOfAPlanTheyArePlainNumbers) {
  const Extent a = 7, b = 2;
  EXPECT_EQ((a * b + 1).fixed(), 15);
  EXPECT_FALSE((a / b).is_open());
  EXPECT_EQ(lesser(a, b).fixed(), 2);
}

// A size is not known as a multiple of a sum of sizes unless the division is carried out.
TEST(Extents, MultiplesAreDividedWithoutRemainder) {
  OpenSizes open;
  const Extent s = open.symbol(26), t = open.symbol(40);
  EXPECT_TRUE(is_same((s + 1) * 12 / (s + 1), 12));
  EXPECT_TRUE(is_same((s + 1) * 12 % (s + 1), 0));
  EXPECT_TRUE(is_same((s + 1) * (t - 2) * 6 / ((t - 2) * 3), (s + 1) * 2));
  EXPECT_TRUE(is_same((s * s - 1) / (s - 1), s + 1));
  EXPECT_TRUE(is_same((s * t + s + t + 1) / (t + 1), s + 1));
  const Extent none = (s * s + 1) / (s + 1);  // 677 / 27
  EXPECT_EQ(none.hint(), 25);
  EXPECT_FALSE(is_same(none, s - 1));
  EXPECT_EQ(((s * s + 1) % (s + 1)).hint(), 2);
}

// A random computation with branches, the same for every type of number.
template <class Number>
struct Computation {
  std::vector<Number> numbers;
  std::vector<bool> decisions;

  Computation(std::uint64_t seed, std::vector<Number> symbols) : numbers(std::move(symbols)) {
    std::mt19937_64 draw(seed);
    numbers.push_back(3);
    numbers.push_back(64);
    for (int step = 0; step < 40; ++step) {
      const Number a = numbers[draw() % numbers.size()], b = numbers[draw() % numbers.size()];
      switch (draw() % 9) {
        case 0:
          add(a + b);
          break;
        case 1:
          add(a - b);
          break;
        case 2:
          add(a * b);
          break;
        case 3:
          if (decide(b > 0) && decide(a >= 0)) add(a / b);
          break;
        case 4:
          if (decide(b > 0) && decide(a >= 0)) add(a % b);
          break;
        case 5:
          if (decide(a < b)) add(a + 1);
          break;
        case 6:
          if (decide(a == b)) add(a * 2);
          break;
        case 7:
          add(smaller(a, b));
          break;
        default:
          add(rounded_up(a));
      }
    }
  }

  // Numbers stay small enough not to overflow.
  void add(Number number) {
    const bool small = decide(number < 100000) && decide(number > -100000);
    if (small) numbers.push_back(number);
  }
  bool decide(bool decision) {
    decisions.push_back(decision);
    return decision;
  }
  static std::int64_t to_power(std::span<const std::int64_t> a) {
    std::int64_t power = 1;
    while (power < a[0]) power *= 2;
    return power;
  }
  static Number smaller(Number a, Number b) {
    if constexpr (std::is_same_v<Number, Extent>) {
      return lesser(a, b);
    } else {
      return std::min(a, b);
    }
  }
  static Number rounded_up(Number a) {
    if constexpr (std::is_same_v<Number, Extent>) {
      return evaluated(&to_power, {a});
    } else {
      return to_power(std::vector{a});
    }
  }
};

TEST(Extents, FormulasAgreeWithComputingAnew) {
  int allowed = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 draw(seed + 1000);
    const auto number = [&] { return static_cast<std::int64_t>(2 + draw() % 60); };
    const std::int64_t s = number(), t = number();
    OpenSizes sizes;
    const Computation<Extent> planned(seed, {sizes.symbol(s), sizes.symbol(t)});
    const OpenSizes::Formulas formulas = sizes.formulas(planned.numbers);
    std::vector<std::int64_t> values;
    ASSERT_TRUE(formulas.evaluate(std::vector{s, t}, values)) << seed;
    for (int other = 0; other < 60; ++other) {
      // Similar sizes pass guards more often.
      const bool near = other % 2 == 0;
      const std::int64_t u = near ? s + static_cast<std::int64_t>(draw() % 5) : number(),
                         v = near ? t + static_cast<std::int64_t>(draw() % 3) : number();
      if (!formulas.evaluate(std::vector{u, v}, values)) continue;
      ++allowed;
      const Computation<std::int64_t> anew(seed, {u, v});
      ASSERT_EQ(anew.decisions, planned.decisions) << seed << ": " << u << ", " << v;
      ASSERT_EQ(anew.numbers.size(), planned.numbers.size());
      for (std::size_t n = 0; n < anew.numbers.size(); ++n)
        ASSERT_EQ(formulas.value(planned.numbers[n], values), anew.numbers[n]) << seed;
    }
  }
  EXPECT_GT(allowed, 3000);  // otherwise the loop has shown little
}

TEST(SizePatterns, FollowFromFewSymbols) {
  // A batch size, a length, their product, twice the length, a length plus one, and constants.
  const auto sizes = [](std::int64_t b, std::int64_t t) {
    return std::vector<std::int64_t>{b, t, b * t, 2 * t, t + 1, 7, 1, 0};
  };
  const std::vector<std::vector<std::int64_t>> seen{sizes(5, 30), sizes(8, 44)};
  const SizePattern pattern = SizePattern::of(seen);
  EXPECT_EQ(pattern.symbols(), 2u);
  std::vector<std::int64_t> symbols;
  EXPECT_TRUE(pattern.symbols_of(sizes(9, 100), symbols));
  std::vector<std::int64_t> broken = sizes(9, 100);
  broken[3] += 1;
  EXPECT_FALSE(pattern.symbols_of(broken, symbols));
  broken = sizes(9, 100);
  broken[5] = 8;
  EXPECT_FALSE(pattern.symbols_of(broken, symbols));
}

TEST(SizePatterns, MultiplesOfNeighboursFollow) {
  // The smallest size is a length less one; others are multiples of the length and of its
  // successor.
  const auto sizes = [](std::int64_t t) {
    return std::vector<std::int64_t>{12 * t, t - 1, t, 5 * (t + 1), t + 1, 3 * (t - 1)};
  };
  const std::vector<std::vector<std::int64_t>> seen{sizes(27), sizes(40)};
  const SizePattern pattern = SizePattern::of(seen);
  EXPECT_EQ(pattern.symbols(), 1u);
  std::vector<std::int64_t> symbols;
  EXPECT_TRUE(pattern.symbols_of(sizes(55), symbols));
  std::vector<std::int64_t> broken = sizes(55);
  broken[0] += 12;
  EXPECT_FALSE(pattern.symbols_of(broken, symbols));
}

TEST(SizePatterns, SizesOfOneStayAsTheyAre) {
  const std::vector<std::vector<std::int64_t>> seen{{1, 6}, {4, 9}};
  const SizePattern pattern = SizePattern::of(seen);
  EXPECT_EQ(pattern.symbols(), 1u);
  std::vector<std::int64_t> symbols;
  EXPECT_TRUE(pattern.symbols_of(std::vector<std::int64_t>{4, 12}, symbols));
  EXPECT_FALSE(pattern.symbols_of(std::vector<std::int64_t>{1, 12}, symbols));
}

// Relations that two batches have by coincidence are dropped when a third batch refutes them.
TEST(SizePatterns, MoreBatchesCorrectAGuess) {
  const std::vector<std::vector<std::int64_t>> two{{4, 16}, {8, 32}};
  EXPECT_EQ(SizePattern::of(two).symbols(), 1u);
  const std::vector<std::vector<std::int64_t>> three{{4, 16}, {8, 32}, {8, 20}};
  EXPECT_EQ(SizePattern::of(three).symbols(), 2u);
}

}  // namespace
}  // namespace volta::plan
