// Drawn digits are the same on every machine, have the size and position of MNIST's, and are no
// easier.
#include "volta/data/digits.h"

#include <algorithm>
#include <cmath>

#include "data/data_testing.h"
#include "platform/parallel.h"
#include "support/test_device.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using volta::data_testing::expect_error;

namespace {

// FNV-1a.
std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

std::vector<std::uint8_t> copied(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST(Digits, TheSameBytesOnEveryMachine) {
  const auto train = data::digits(data::Split::train, {.count = 1000});
  const auto test = data::digits(data::Split::test, {.count = 1000});
  EXPECT_EQ(hash_of(train.labels()), 0xE4DA5866D18D91F7u);
  EXPECT_EQ(hash_of(train.pixels()), 0x0273DB27B57AE453u);
  EXPECT_EQ(hash_of(test.pixels()), 0x938B3E12FDD4188Fu);
}

TEST(Digits, DependOnSeedSplitAndIndexAlone) {
  const auto all = data::digits(data::Split::train, {.count = 2000});
  const auto few = data::digits(data::Split::train, {.count = 300});
  EXPECT_TRUE(std::equal(few.pixels().begin(), few.pixels().end(), all.pixels().begin()));
  const int threads = platform::num_threads();
  platform::set_num_threads(1);
  const auto alone = data::digits(data::Split::train, {.count = 2000});
  platform::set_num_threads(3);
  const auto three = data::digits(data::Split::train, {.count = 2000});
  platform::set_num_threads(threads);
  EXPECT_EQ(copied(alone.pixels()), copied(all.pixels()));
  EXPECT_EQ(copied(three.pixels()), copied(all.pixels()));
  EXPECT_EQ(copied(three.labels()), copied(all.labels()));
  const auto other = data::digits(data::Split::train, {.count = 300, .seed = 1});
  EXPECT_NE(copied(other.pixels()), copied(few.pixels()));
  const auto test = data::digits(data::Split::test, {.count = 300});
  EXPECT_NE(copied(test.pixels()), copied(few.pixels()));
}

TEST(Digits, AreAsManyAsAskedFor) {
  EXPECT_EQ(data::digits(data::Split::test).size(), 10000);
  EXPECT_EQ(data::digits(data::Split::test, {.count = 0}).size(), 0);
  const auto some = data::digits(data::Split::test, {.count = 3});
  const data::Example example = some.get(2);
  EXPECT_EQ(example.x.shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(example.x.dtype(), DType::f32);
  EXPECT_EQ(example.y.dtype(), DType::i64);
  expect_error<ArgumentError>([] { data::digits(data::Split::test, {.count = -1}); },
                              {"count must be 0 to 10000000, got -1"});
}

TEST(Digits, LieAsMnistsDo) {
  const auto some = data::digits(data::Split::train, {.count = 2000});
  std::vector<int> classes(10);
  double ink = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    ++classes[some.labels()[i]];
    const auto image = some.pixels().subspan(i * 784, 784);
    double mass = 0, mx = 0, my = 0;
    int left = 28, right = -1, top = 28, bottom = -1;
    for (int p = 0; p < 784; ++p) {
      const int value = image[static_cast<std::size_t>(p)];
      if (value == 0) continue;
      mass += value;
      mx += value * (p % 28 + 0.5);
      my += value * (p / 28 + 0.5);
      left = std::min(left, p % 28), right = std::max(right, p % 28);
      top = std::min(top, p / 28), bottom = std::max(bottom, p / 28);
    }
    ASSERT_GT(mass, 255 * 20) << i;
    EXPECT_NEAR(mx / mass, 14, 1.6) << i;
    EXPECT_NEAR(my / mass, 14, 1.6) << i;
    const int larger = std::max(right - left, bottom - top) + 1;
    EXPECT_GE(larger, 18) << i;
    EXPECT_LE(larger, 24) << i;
    EXPECT_EQ(*std::max_element(image.begin(), image.end()) > 150, true) << i;
    ink += mass / 255 / 784;
  }
  for (const int count : classes) EXPECT_NEAR(count, 200, 60);
  EXPECT_NEAR(ink / 2000, 0.135, 0.02);  // MNIST's value is 0.131
}

TEST(Digits, ALinearModelReadsMostButNotAll) {
  manual_seed(0);
  data::DataLoader train(data::digits(data::Split::train, {.count = 4000}),
                         {.batch_size = 100, .shuffle = true});
  nn::Linear model(784, 10);
  optim::Adam opt(model.parameters(), {.lr = 2e-3});
  for (int epoch = 0; epoch < 6; ++epoch) {
    for (auto [x, y] : train) {
      opt.zero_grad();
      cross_entropy(model(x.flatten(1)), y).backward();
      opt.step();
    }
  }
  const NoGrad no_grad;
  data::DataLoader test(data::digits(data::Split::test, {.count = 1000}), {.batch_size = 500});
  std::int64_t right = 0;
  for (auto [x, y] : test) right += model(x.flatten(1)).argmax(1).eq(y).sum().item<std::int64_t>();
  EXPECT_GT(right, 800);
  EXPECT_LT(right, 950);
}
