// Transforms: values computed by hand, on examples and batches; random numbers; refused arguments.
#include "volta/data/transforms.h"

#include <cmath>

#include "data/data_testing.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using data::Batch;
using data::Example;
using data::Random;
using data::Transform;
using volta::data_testing::expect_error;

namespace {

// Two images of two channels, 2 by 3; values 0 to 23.
Batch small() {
  return {arange(24, {.dtype = DType::f32}).reshape({2, 2, 2, 3}).eval(), arange(2).eval()};
}

std::vector<Random> randoms(std::size_t count, std::uint64_t seed = 0) {
  std::vector<Random> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(seed, i);
  return all;
}

Batch applied(const Transform& transform, const Batch& batch, std::uint64_t seed = 0) {
  auto random = randoms(static_cast<std::size_t>(batch.x.size(0)), seed);
  return transform(batch, random);
}

std::vector<float> values(const Tensor& tensor) { return tensor.to_vector<float>(); }

}  // namespace

TEST(Transforms, Normalize) {
  const Batch batch = applied(data::normalize({1, 7}, {2, 4}), small());
  const auto x = values(batch.x);
  EXPECT_EQ(x[0], -0.5f);
  EXPECT_EQ(x[6], -0.25f);
  EXPECT_EQ(x[23], 4.0f);
  EXPECT_EQ(values(applied(data::normalize({1}, {2}), small()).x)[23], 11.0f);
  expect_error<ShapeError>([] { applied(data::normalize({1, 2, 3}, {1}), small()); },
                           {"3 values for 2 channels"});
  expect_error<ArgumentError>([] { data::normalize({0}, {0}); }, {"std must be above 0, got 0"});
  expect_error<ArgumentError>([] { data::normalize({}, {1}); }, {"no mean"});
}

TEST(Transforms, Flips) {
  const auto always = values(applied(data::random_horizontal_flip(1), small()).x);
  EXPECT_EQ(std::vector<float>(always.begin(), always.begin() + 6),
            (std::vector<float>{2, 1, 0, 5, 4, 3}));
  const auto vertical = values(applied(data::random_vertical_flip(1), small()).x);
  EXPECT_EQ(std::vector<float>(vertical.begin() + 6, vertical.begin() + 12),
            (std::vector<float>{9, 10, 11, 6, 7, 8}));
  EXPECT_EQ(values(applied(data::random_vertical_flip(0), small()).x), values(small().x));
  // About half of the images are flipped, as each one's generator decides.
  const Batch many{arange(200, {.dtype = DType::f32}).reshape({100, 1, 1, 2}).eval(), {}};
  const auto some = values(applied(data::random_horizontal_flip(), many).x);
  int flipped = 0;
  for (std::size_t i = 0; i < 100; ++i) flipped += some[2 * i] > some[2 * i + 1];
  EXPECT_NEAR(flipped, 50, 15);
  expect_error<ArgumentError>([] { data::random_horizontal_flip(1.5); }, {"p must be 0 to 1"});
}

TEST(Transforms, Crops) {
  const auto centre = applied(data::center_crop(2, 1), small()).x;
  EXPECT_EQ(centre.shape(), (Shape{2, 2, 2, 1}));
  EXPECT_EQ(values(centre), (std::vector<float>{1, 4, 7, 10, 13, 16, 19, 22}));
  // Exactly the positions within the border occur; the first value identifies the position.
  const Batch one{(arange(9, {.dtype = DType::f32}) + 1.0).reshape({1, 1, 3, 3}).eval(), {}};
  std::vector<int> counts(16);
  for (std::uint64_t seed = 0; seed < 1600; ++seed) {
    const Tensor part = applied(data::random_crop(2, 2, {.padding = 1, .fill = -1}), one, seed).x;
    ASSERT_EQ(part.shape(), (Shape{1, 1, 2, 2}));
    const auto v = values(part);
    int found = -1;
    for (int top = -1; top < 3; ++top) {
      for (int left = -1; left < 3; ++left) {
        bool same = true;
        for (int i = 0; i < 4; ++i) {
          const int y = top + i / 2, x = left + i % 2;
          const float wanted =
              y < 0 || x < 0 || y > 2 || x > 2 ? -1.0f : static_cast<float>(3 * y + x + 1);
          same = same && v[static_cast<std::size_t>(i)] == wanted;
        }
        if (same) found = (top + 1) * 4 + left + 1;
      }
    }
    ASSERT_GE(found, 0);
    ++counts[static_cast<std::size_t>(found)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 100, 50);
  expect_error<ShapeError>([] { applied(data::random_crop(4, 3), small()); },
                           {"4 x 3 of an image of 2 x 3 with 0 around it"});
  expect_error<ArgumentError>([] { data::random_crop(0, 3); }, {"a size of 0 x 3"});
}

TEST(Transforms, Affine) {
  const Batch image{rand({3, 2, 9, 9}).eval(), {}};
  const auto same = values(applied(data::random_affine({}), image).x);
  const auto before = values(image.x);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(same[i], before[i], 1e-6f);
  // Magnification by two about the centre: the value at 4 + 2 k is the original one at 4 + k.
  const auto large =
      values(applied(data::random_affine({.scale_min = 2, .scale_max = 2}), image).x);
  for (std::size_t k = 0; k <= 2; ++k)
    EXPECT_NEAR(large[(4 + 2 * k) * 9 + 4], before[(4 + k) * 9 + 4], 1e-5f);
  // Rotation keeps a point's distance from the centre.
  std::vector<float> point(33 * 33, 0.0f);
  point[16 * 33 + 26] = 1;
  const Batch dot{from_vector(point, {1, 1, 33, 33}), {}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto turned = values(applied(data::random_affine({.degrees = 90}), dot, seed).x);
    double mass = 0, mx = 0, my = 0;
    for (std::size_t i = 0; i < turned.size(); ++i) {
      mass += turned[i];
      mx += turned[i] * static_cast<double>(i % 33);
      my += turned[i] * static_cast<double>(i / 33);
    }
    ASSERT_GT(mass, 0.3);
    EXPECT_NEAR(std::hypot(mx / mass - 16, my / mass - 16), 10, 0.5);
  }
  expect_error<ArgumentError>([] { data::random_affine({.scale_min = 0}); }, {"scale_min"});
  expect_error<ArgumentError>([] { data::random_affine({.shear = 90}); }, {"shear"});
}

TEST(Transforms, OneHot) {
  const Batch batch =
      applied(data::one_hot(3), {zeros({2, 1}), tensor({2, 0}, {.dtype = DType::i64})});
  EXPECT_EQ(batch.y.shape(), (Shape{2, 3}));
  EXPECT_EQ(values(batch.y), (std::vector<float>{0, 0, 1, 1, 0, 0}));
  for (const DType dtype : {DType::i32, DType::u8}) {
    EXPECT_EQ(
        values(applied(data::one_hot(3), {zeros({2, 1}), tensor({2, 0}, {.dtype = dtype})}).y),
        values(batch.y));
  }
  expect_error<IndexError>(
      [] { applied(data::one_hot(3), {zeros({2, 1}), tensor({1, 3}, {.dtype = DType::i64})}); },
      {"label 3 of example 1 is not in [0, 3)"});
  expect_error<IndexError>(
      [] { applied(data::one_hot(3), {zeros({2, 1}), tensor({-1, 0}, {.dtype = DType::i64})}); },
      {"label -1 of example 0"});
  expect_error<DTypeError>([] { applied(data::one_hot(3), {zeros({2, 1}), zeros({2})}); },
                           {"labels must be integers, got f32"});
}

TEST(Transforms, ComposedOnExamplesAndBatches) {
  const Transform both = data::compose(
      {data::normalize({12}, {1}), data::random_horizontal_flip(1), data::one_hot(2)});
  const Batch batch = applied(both, small());
  EXPECT_EQ(values(batch.x)[0], -10.0f);
  EXPECT_EQ(batch.y.shape(), (Shape{2, 2}));
  // A single example, and a dataset of examples.
  const data::TensorDataset rows(small().x, small().y);
  const Example one = both(rows.get(1));
  EXPECT_EQ(one.x.shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(one.y.shape(), (Shape{2}));
  EXPECT_EQ(values(one.x)[0], 2.0f);
  EXPECT_EQ(values(data::map(rows, both).get(1).x), values(one.x));
  // The thread's generator draws the numbers.
  const Transform crop = data::random_crop(2, 3, {.padding = 5});
  manual_seed(3);
  const auto first = values(crop(rows.get(1)).x), second = values(crop(rows.get(1)).x);
  manual_seed(3);
  EXPECT_EQ(values(crop(rows.get(1)).x), first);
  EXPECT_NE(first, second);
  EXPECT_EQ(values(Transform()(rows.get(0)).x), values(rows.get(0).x));
  const Transform plus = data::on_batches([](const Batch& b) { return Batch{b.x + 1.0, b.y}; });
  EXPECT_EQ(values(plus(rows.get(0)).x)[0], 1.0f);
}

TEST(Transforms, WantImagesOfFloats) {
  expect_error<ShapeError>([] { applied(data::random_horizontal_flip(), {zeros({2, 3}), {}}); },
                           {"examples must be [channels, height, width], got [3]"});
  expect_error<DTypeError>(
      [] { applied(data::center_crop(1, 1), {zeros({2, 1, 3, 3}, {.dtype = DType::u8}), {}}); },
      {"expected f32, got u8"});
}
