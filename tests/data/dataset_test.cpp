// Datasets in memory, subsets, and mapped datasets.
#include "volta/data/dataset.h"

#include <set>

#include "data/data_testing.h"
#include "support/test_device.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using data::Example;
using volta::data_testing::expect_error;

namespace {
data::TensorDataset squares(std::int64_t count) {
  const Tensor x = arange(count, {.dtype = DType::f32});
  return data::TensorDataset(x * x, arange(count));
}
}  // namespace

TEST(Datasets, TensorsByRows) {
  const Tensor x = arange(12, {.dtype = DType::f32, .device = test_device()}).reshape({4, 3});
  const data::TensorDataset rows(x * 2, arange(4, {.dtype = DType::i32}));
  EXPECT_EQ(rows.size(), 4);
  const Example example = rows.get(2);
  EXPECT_EQ(example.x.shape(), (Shape{3}));
  EXPECT_EQ(example.x.to_vector<float>(), (std::vector<float>{12, 14, 16}));
  EXPECT_EQ(example.y.dtype(), DType::i32);
  EXPECT_EQ(example.y.item<std::int32_t>(), 2);
  const data::TensorDataset without(zeros({3, 2}));
  EXPECT_FALSE(without.get(0).y.defined());
  expect_error<IndexError>([&] { rows.get(4); }, {"example 4 of 4"});
  expect_error<IndexError>([&] { rows.get(-1); }, {"example -1 of 4"});
  expect_error<ShapeError>([] { data::TensorDataset(zeros({3, 2}), zeros({2})); },
                           {"x [3, 2] and y [2] differ in their rows"});
  expect_error<ShapeError>([] { data::TensorDataset(scalar(1)); }, {"has no rows"});
  expect_error<ArgumentError>([] { data::TensorDataset{Tensor()}; }, {"x is undefined"});
}

TEST(Datasets, ImagesOfBytes) {
  const data::ImageDataset images({1, 1, 3}, {0, 51, 255, 1, 2, 3}, {7, 9});
  const Example first = images.get(0);
  EXPECT_EQ(first.x.shape(), (Shape{1, 1, 3}));
  EXPECT_EQ(first.x.to_vector<float>(), (std::vector<float>{0, 51 / 255.0f, 1}));
  EXPECT_EQ(images.get(1).y.item<std::int64_t>(), 9);
  expect_error<ShapeError>([] { data::ImageDataset({1, 2, 2}, {1, 2, 3}, {1}); },
                           {"3 bytes are not 1 images [1, 2, 2]"});
}

TEST(Datasets, Subsets) {
  const data::Subset part(squares(10), {9, 0, 3});
  EXPECT_EQ(part.size(), 3);
  EXPECT_EQ(part.get(0).x.item(), 81);
  EXPECT_EQ(part.get(2).y.item<std::int64_t>(), 3);
  const data::Subset of_it(part, {2, 2});
  EXPECT_EQ(of_it.get(1).x.item(), 9);
  expect_error<ArgumentError>([] { data::Subset(squares(3), {3}); }, {"index 3 of a dataset of 3"});
  expect_error<IndexError>([&] { part.get(3); }, {"example 3 of 3"});
}

TEST(Datasets, RandomSplits) {
  const auto parts = data::random_split(squares(101), std::vector<double>{0.5, 0.25, 0.25}, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size(), 51);
  EXPECT_EQ(parts[1].size(), 25);
  std::set<std::int64_t> all;
  for (const data::Subset& part : parts) all.insert(part.indices().begin(), part.indices().end());
  EXPECT_EQ(all.size(), 101u);
  const auto again = data::random_split(squares(101), std::vector<std::int64_t>{51, 25, 25}, 3);
  EXPECT_EQ(again[1].indices(), parts[1].indices());
  const auto other = data::random_split(squares(101), std::vector<std::int64_t>{51, 25, 25}, 4);
  EXPECT_NE(other[1].indices(), parts[1].indices());
  // Without a seed, manual_seed() decides.
  const auto drawn = [](std::uint64_t seed) {
    manual_seed(seed);
    const auto one = data::random_split(squares(50), std::vector<double>{0.5, 0.5});
    const auto two = data::random_split(squares(50), std::vector<double>{0.5, 0.5});
    EXPECT_NE(one[0].indices(), two[0].indices());
    return one[0].indices();
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
  expect_error<ArgumentError>(
      [] { data::random_split(squares(4), std::vector<std::int64_t>{2, 1}); },
      {"parts of 2, 1 do not make up 4 examples"});
  expect_error<ArgumentError>([] { data::random_split(squares(4), std::vector<double>{0.5, 0.4}); },
                              {"do not add up to 1"});
}

TEST(Datasets, Maps) {
  const auto doubled = data::map(
      squares(5), [](const Example& example) { return Example{example.x * 2, example.y + 1}; });
  EXPECT_EQ(doubled.size(), 5);
  EXPECT_EQ(doubled.get(3).x.item(), 18);
  EXPECT_EQ(doubled.get(3).y.item<std::int64_t>(), 4);
  expect_error<ArgumentError>([] { data::map(squares(5), {}); }, {"map: no function"});
}

TEST(Datasets, RandomNumbersOfAKey) {
  data::Random a(1, 2), b(1, 2), c(2, 1);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
  std::vector<int> counts(6);
  for (int i = 0; i < 6000; ++i) {
    ++counts[a.below(6)];
    const float x = a.uniform(-1, 3);
    EXPECT_TRUE(x >= -1 && x < 3);
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(a.below(1), 0u);
  manual_seed(5);
  data::Random first = data::Random::of_thread(), second = data::Random::of_thread();
  manual_seed(5);
  data::Random again = data::Random::of_thread();
  const std::uint64_t number = first.next();
  EXPECT_EQ(again.next(), number);
  EXPECT_NE(second.next(), number);
}
