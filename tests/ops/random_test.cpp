// Random numbers: generators, streams, and distributions, equal on every device.
#include "volta/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>
#include <thread>
#include <vector>

#include "kernel/philox.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions from(const Generator& generator, std::optional<DType> dtype = std::nullopt) {
  return {.dtype = dtype, .device = test_device(), .generator = generator};
}

// ---- Generators.

TEST(Generators, CopiesDrawFromOneStream) {
  const Generator a(3), same = a;
  EXPECT_EQ(a, same);
  EXPECT_NE(a, Generator(3));
  const auto first = rand({8}, from(a)).to_vector<float>();
  const auto second = rand({8}, from(same)).to_vector<float>();
  EXPECT_NE(first, second);
  EXPECT_EQ(a.state(), (GeneratorState{3, 4}));
  a.manual_seed(3);
  EXPECT_EQ(rand({8}, from(same)).to_vector<float>(), first);
  EXPECT_EQ(same.seed(), 3u);
}

TEST(Generators, StatesCanBeReturnedTo) {
  const Generator g(11);
  rand({5}, from(g));
  const GeneratorState there = g.state();
  const auto once = randn({10}, from(g)).to_vector<float>();
  const Generator clone = g.clone();
  g.set_state(there);
  EXPECT_EQ(randn({10}, from(g)).to_vector<float>(), once);
  EXPECT_EQ(randn({10}, from(clone)).to_vector<float>(), randn({10}, from(g)).to_vector<float>());
}

TEST(Generators, DoNotDisturbEachOther) {
  manual_seed(5);
  const auto own = rand({9}, from({})).to_vector<float>(),
             later = rand({9}, from({})).to_vector<float>();
  manual_seed(5);
  const Generator g(5);
  EXPECT_EQ(rand({9}, from(g)).to_vector<float>(), own);
  randint(0, 10, {100}, from(g));
  dropout(ones({64}, {.device = test_device()}), 0.5, true, g);
  EXPECT_EQ(rand({9}, from({})).to_vector<float>(), own);
  EXPECT_EQ(rand({9}, from({})).to_vector<float>(), later);
}

TEST(Generators, TheDefaultIsTheThreadsOwn) {
  const Generator own;
  own.manual_seed(21);
  EXPECT_EQ(own.state(), (GeneratorState{21, 0}));
  const auto here = rand({4}, from({})).to_vector<float>();
  EXPECT_EQ(own.state(), (GeneratorState{21, 1}));
  manual_seed(21);
  EXPECT_EQ(rand({4}, from(own)).to_vector<float>(), here);
  std::vector<float> there, seeded;
  std::thread([&] {
    there = rand({4}, from({})).to_vector<float>();
    manual_seed(21);
    seeded = rand({4}, from({})).to_vector<float>();
  }).join();
  EXPECT_NE(there, here);
  EXPECT_EQ(seeded, here);
}

TEST(Generators, ThreadsShareAStreamWithoutDrawingTwice) {
  const Generator g(8);
  std::vector<std::vector<float>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const auto four = rand({4}, {.generator = g}).to_vector<float>();
        mine.insert(mine.end(), four.begin(), four.end());
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::multiset<float> all, expected;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  for (const float x : rand({800}, {.generator = Generator(8)}).to_vector<float>())
    expected.insert(x);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(g.state().offset, 200u);
}

TEST(Generators, CheckpointsDrawTheSameAgain) {
  const auto gradient = [](bool again) {
    const Generator g(17);
    const Tensor x = ones({256}, {.device = test_device(), .requires_grad = true});
    const auto layer = [g](const Tensor& in) {
      return dropout(in * in, 0.5, true, g) * rand_like(in, {.generator = g});
    };
    const Tensor y = again ? checkpoint(layer, x) : layer(x);
    const GeneratorState between = g.state();
    rand({4}, from(g));  // the stream has advanced when the section is recomputed
    y.sum().backward();
    EXPECT_EQ(g.state().offset, between.offset + 1);
    return x.grad().to_vector<float>();
  };
  const auto kept = gradient(false);
  EXPECT_EQ(gradient(true), kept);
  EXPECT_GT(std::count(kept.begin(), kept.end(), 0.0f), 50);
}

TEST(Generators, DrawingAgainReplaysThePlan) {
  const Generator g(2);
  const auto draw = [&] { return (randn({100}, from(g)) * 2).eval(); };
  draw(), draw(), draw();
  const std::uint64_t built = counters().plans_built;
  const auto a = draw().to_vector<float>(), b = draw().to_vector<float>();
  EXPECT_NE(a, b);
  EXPECT_EQ(counters().plans_built, built);
}

// ---- Streams: what the numbers depend on.

TEST(Streams, PhiloxIsPhilox) {
  // Known answers of Philox4x32-10 for a counter and key of 0.
  const std::array<std::uint32_t, 4> zero = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(kernel::philox(0, 0), zero);
}

std::vector<std::uint32_t> words_of(std::uint64_t seed, std::size_t count) {
  std::vector<std::uint32_t> words;
  for (std::uint64_t block = 0; words.size() < count; ++block)
    for (const std::uint32_t word : kernel::philox(seed, block)) words.push_back(word);
  words.resize(count);
  return words;
}

TEST(Streams, UniformsAndIntegersAreTheseBitsOnEveryDevice) {
  constexpr std::uint64_t seed = 0x123456789abcdef;
  constexpr std::size_t n = 1001;
  const auto words = words_of(seed, 2 * n + 2);
  const auto u = rand({n}, from(Generator(seed))).to_vector<float>();
  const auto few = randint(-3, 7, {n}, from(Generator(seed))).to_vector<std::int64_t>();
  const auto many = randint(5, 5'000'000'005, {n}, from(Generator(seed))).to_vector<std::int64_t>();
  const auto coin = bernoulli({n}, 0.25, from(Generator(seed), DType::boolean)).to_vector<bool>();
  const auto halves = rand({n}, from(Generator(seed), DType::f16)).to_vector<float>();
  const auto brains = rand({n}, from(Generator(seed), DType::bf16)).to_vector<float>();
  for (std::size_t i = 0; i < n; ++i) {
    const float expected = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    ASSERT_EQ(u[i], expected) << i;
    ASSERT_EQ(few[i], static_cast<std::int64_t>(std::floor(expected * 10)) - 3) << i;
    const std::uint64_t bits = (std::uint64_t{words[2 * i]} << 32 | words[2 * i + 1]) << 1 >> 1;
    ASSERT_EQ(many[i], static_cast<std::int64_t>(bits % 5'000'000'000) + 5) << i;
    ASSERT_EQ(coin[i], expected < 0.25f) << i;
    ASSERT_EQ(halves[i], static_cast<float>(words[i] >> 21) * 0x1p-11f) << i;
    ASSERT_EQ(brains[i], static_cast<float>(words[i] >> 24) * 0x1p-8f) << i;
  }
  if (!test_device().supports(DType::f64)) return;
  const auto wide = rand({n}, from(Generator(seed), DType::f64)).to_vector<double>();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(wide[i], words[i] * 0x1p-32) << i;
}

// The number of floats from one to the other.
std::int64_t ulps(float a, float b) {
  const auto order = [](float x) {
    const auto bits = std::bit_cast<std::int32_t>(x);
    return std::int64_t{bits < 0 ? INT32_MIN - bits : bits};
  };
  return std::abs(order(a) - order(b));
}

TEST(Streams, NormalsAgreeToFourUlpsOnEveryDevice) {
  constexpr std::size_t n = 100'000;
  const auto device = randn({n}, from(Generator(77))).to_vector<float>();
  const auto cpu = randn({n}, {.generator = Generator(77)}).to_vector<float>();
  const auto words = words_of(77, 2 * n);
  std::int64_t between = 0, beside = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float u = static_cast<float>(words[2 * i] >> 8) * 0x1p-24f;
    const float angle = static_cast<float>(2 * std::numbers::pi) *
                        (static_cast<float>(words[2 * i + 1] >> 8) * 0x1p-24f);
    const double exact = std::sqrt(-2 * std::log(1.0 - u)) * std::cos(static_cast<double>(angle));
    between = std::max(between, ulps(device[i], cpu[i]));
    beside = std::max(beside, ulps(device[i], static_cast<float>(exact)));
  }
  EXPECT_LE(between, 4);
  EXPECT_LE(beside, 4);
}

// Draws of multiples of four words continue each other; the shape does not matter.
TEST(Streams, BatchesMayBeSplit) {
  using Draw = std::function<Tensor(const Shape&, const Generator&)>;
  const std::vector<Draw> draws = {
      [](const Shape& s, const Generator& g) { return rand(s, from(g)); },
      [](const Shape& s, const Generator& g) { return randn(s, from(g)); },
      [](const Shape& s, const Generator& g) { return uniform(s, -2, 3, from(g)); },
      [](const Shape& s, const Generator& g) { return randint(0, 9, s, from(g, DType::f32)); },
      [](const Shape& s, const Generator& g) { return randint(0, 9999, s, from(g, DType::f32)); },
      [](const Shape& s, const Generator& g) { return bernoulli(s, 0.3, from(g)); },
      [](const Shape& s, const Generator& g) {
        return dropout(ones(s, {.device = test_device()}), 0.3, true, g);
      },
  };
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const Generator whole(i), split(i), flat(i);
    const auto all = draws[i]({64, 10}, whole).to_vector<float>();
    std::vector<float> parts;
    for (const std::int64_t rows : {2, 30, 32}) {
      const auto part = draws[i]({rows, 10}, split).to_vector<float>();
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(parts, all) << i;
    EXPECT_EQ(split.state(), whole.state()) << i;
    EXPECT_EQ(draws[i]({4, 5, 32}, flat).to_vector<float>(), all) << i;
  }
  // Otherwise the next draw starts at the next multiple of four words.
  const Generator g(1);
  const auto all = rand({12}, from(Generator(1))).to_vector<float>();
  EXPECT_EQ(rand({3}, from(g)).to_vector<float>(),
            std::vector<float>(all.begin(), all.begin() + 3));
  EXPECT_EQ(rand({5}, from(g)).to_vector<float>(),
            std::vector<float>(all.begin() + 4, all.begin() + 9));
  EXPECT_EQ(g.state().offset, 3u);
}

TEST(Streams, SeedsAndOffsetsGiveDifferentNumbers) {
  constexpr std::int64_t n = 4096;
  const auto drawn = [&](GeneratorState state) {
    const Generator g(0);
    g.set_state(state);
    return rand({n}, from(g)).to_vector<float>();
  };
  const std::uint64_t far = std::uint64_t{1} << 32;
  const std::vector<GeneratorState> states = {
      {0, 0},   {1, 0},      {2, 0},        {far, 0},      {far + 1, 0},
      {1, n},   {~0ull, 0},  {0, far},      {0, far - 64}, {0, ~0ull - 5000},
      {1, far}, {0x5EED, 0}, {far << 31, 0}};
  std::vector<std::vector<float>> streams;
  for (const GeneratorState& state : states) streams.push_back(drawn(state));
  for (std::size_t a = 0; a < streams.size(); ++a) {
    for (std::size_t b = a + 1; b < streams.size(); ++b) {
      int equal = 0;
      double correlation = 0;
      for (std::size_t i = 0; i < n; ++i) {
        equal += streams[a][i] == streams[b][i] ? 1 : 0;
        correlation += (streams[a][i] - 0.5) * (streams[b][i] - 0.5) * 12 / n;
      }
      EXPECT_LE(equal, 2) << a << ", " << b;
      EXPECT_LT(std::abs(correlation), 4.5 / std::sqrt(n)) << a << ", " << b;
    }
  }
}

// ---- Distributions. Seeds are fixed, so results are reproducible. Thresholds are tight enough
// that a variance with an error of 1% fails, which is tested.

// The largest distance between the distribution of the values and `cdf` (Kolmogorov-Smirnov), at
// 2^14 points of [low, high].
double distance(const std::vector<float>& values, double low, double high, double scale,
                double (*cdf)(double)) {
  constexpr std::size_t cells = 1 << 14;
  const double width = (high - low) / cells;
  std::vector<std::int64_t> counts(cells + 2);
  for (const float value : values) {
    const double cell = std::floor((value * scale - low) / width) + 1;
    ++counts[static_cast<std::size_t>(std::clamp(cell, 0.0, static_cast<double>(cells + 1)))];
  }
  double largest = 0;
  std::int64_t below = 0;
  for (std::size_t i = 0; i <= cells; ++i) {
    below += counts[i];
    const double part = static_cast<double>(below) / static_cast<double>(values.size());
    largest = std::max(largest, std::abs(part - cdf(low + static_cast<double>(i) * width)));
  }
  return largest;
}

double normal_cdf(double x) { return std::erfc(-x * std::numbers::sqrt2 / 2) / 2; }
double even_cdf(double x) { return std::clamp(x + 0.5, 0.0, 1.0); }  // of u - 1/2

constexpr std::int64_t kMany = 1 << 23;
const double kCritical =
    1.95 / std::sqrt(static_cast<double>(kMany));  // exceeded once in a thousand

TEST(Distributions, NormalsAreNormal) {
  const auto x = randn({kMany}, from(Generator(1234))).to_vector<float>();
  EXPECT_LT(distance(x, -6, 6, 1, normal_cdf), kCritical);
  EXPECT_GT(distance(x, -6, 6, std::sqrt(1.01), normal_cdf), kCritical);
  EXPECT_GT(distance(x, -6, 6, std::sqrt(0.99), normal_cdf), kCritical);
  double moments[5] = {};
  for (const double value : x)
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(value, k) / kMany;
  const double n = kMany;
  EXPECT_LT(std::abs(moments[1]), 4 / std::sqrt(n));
  EXPECT_LT(std::abs(moments[2] - 1), 4 * std::sqrt(2 / n));
  EXPECT_LT(std::abs(moments[3]), 4 * std::sqrt(15 / n));
  EXPECT_LT(std::abs(moments[4] - 3), 4 * std::sqrt(96 / n));
}

TEST(Distributions, UniformsAreUniform) {
  auto u = rand({kMany}, from(Generator(99))).to_vector<float>();
  EXPECT_EQ(std::count_if(u.begin(), u.end(), [](float x) { return x < 0 || x >= 1; }), 0);
  for (float& x : u) x -= 0.5f;
  EXPECT_LT(distance(u, -0.51, 0.51, 1, even_cdf), kCritical);
  EXPECT_GT(distance(u, -0.51, 0.51, std::sqrt(1.01), even_cdf), kCritical);
  EXPECT_GT(distance(u, -0.51, 0.51, std::sqrt(0.99), even_cdf), kCritical);
}

TEST(Distributions, NeighboursAreIndependent) {
  constexpr std::size_t n = 1 << 20;
  const auto x = randn({n + 1024}, from(Generator(31))).to_vector<float>();
  const auto u = rand({n + 1024}, from(Generator(32))).to_vector<float>();
  for (const std::size_t lag : {1, 2, 3, 4, 5, 8, 16, 64, 256, 1000}) {
    double of_normals = 0, of_uniforms = 0, of_squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      of_normals += static_cast<double>(x[i]) * x[i + lag];
      of_squares += (x[i] * x[i] - 1.0) * (x[i + lag] * x[i + lag] - 1.0) / 2;
      of_uniforms += (u[i] - 0.5) * (u[i + lag] - 0.5) * 12;
    }
    const double limit = 4.5 * std::sqrt(static_cast<double>(n));
    EXPECT_LT(std::abs(of_normals), limit) << lag;
    EXPECT_LT(std::abs(of_uniforms), limit) << lag;
    EXPECT_LT(std::abs(of_squares), limit) << lag;
  }
}

// Chi squared minus its mean, in standard deviations.
double surplus(const std::vector<std::int64_t>& counts, double expected) {
  double chi = 0;
  for (const std::int64_t count : counts)
    chi += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) /
           expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(Distributions, IntegersAreEven) {
  constexpr std::int64_t n = 1 << 20;
  struct Range {
    std::int64_t low, high, cells;
  };
  // The last three ranges take two words per number; cells are equal parts of the range.
  for (const Range& range :
       {Range{0, 2, 2}, Range{-5, 5, 10}, Range{0, 1000, 1000}, Range{0, 4096, 4096},
        Range{0, 10'000, 10'000}, Range{-7, 3'000'000'000 - 7, 1000},
        Range{-(std::int64_t{1} << 62), 999 * 280'000'000'000 - (std::int64_t{1} << 62), 999}}) {
    const auto x =
        randint(range.low, range.high, {n}, from(Generator(7))).to_vector<std::int64_t>();
    std::vector<std::int64_t> counts(static_cast<std::size_t>(range.cells));
    const std::int64_t width = (range.high - range.low) / range.cells;
    for (const std::int64_t value : x) {
      ASSERT_TRUE(value >= range.low && value < range.high);
      ++counts[static_cast<std::size_t>((value - range.low) / width)];
    }
    EXPECT_LT(std::abs(surplus(counts, static_cast<double>(n) / static_cast<double>(range.cells))),
              4.5)
        << range.low << " to " << range.high;
  }
}

TEST(Distributions, CoinsHaveTheirProbability) {
  constexpr std::int64_t n = 1 << 22;
  for (const double p : {0.0, 0.001, 0.3, 0.5, 0.97, 1.0}) {
    const double ones = bernoulli({n}, p, from(Generator(13))).to(DType::i64).sum().item();
    EXPECT_LE(std::abs(ones - n * p), 4 * std::sqrt(n * p * (1 - p))) << p;
  }
  // Each element has its own probability; invalid ones are clamped, and NaN counts as 0.
  const Tensor p = tensor({0, 1, -3, 7, NAN}, {5, 1}, {.device = test_device()}).expand({5, 100});
  const Tensor drawn = bernoulli(p, {.generator = Generator(4)});
  EXPECT_EQ(drawn.dtype(), DType::f32);
  EXPECT_EQ(drawn.sum(1).to_vector<float>(), (std::vector<float>{0, 100, 0, 100, 0}));
  const Tensor many = bernoulli(full({n}, 0.3, {.device = test_device()}),
                                {.dtype = DType::boolean, .generator = Generator(13)});
  EXPECT_EQ(many.dtype(), DType::boolean);
  EXPECT_EQ(many.to(DType::i64).sum().item(),
            bernoulli({n}, 0.3, from(Generator(13))).to(DType::i64).sum().item());
  EXPECT_FALSE(
      bernoulli(full({2}, 0.5, {.device = test_device(), .requires_grad = true})).requires_grad());
}

TEST(Distributions, HalvesStayBelowOne) {
  for (const DType half : {DType::f16, DType::bf16}) {
    const auto x = rand({1 << 16}, from(Generator(3), half)).to_vector<float>();
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 1);
    double mean = 0;
    for (const float value : x) mean += value / (1 << 16);
    // Multiples of 2^-11 and 2^-8 are half a step below 1/2 on average.
    EXPECT_NEAR(mean, 0.5 - (half == DType::f16 ? 0x1p-12 : 0x1p-9),
                4 / std::sqrt(12.0 * (1 << 16)));
  }
}

}  // namespace
}  // namespace volta
