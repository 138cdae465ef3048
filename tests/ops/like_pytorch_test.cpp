// Calls that PyTorch accepts: shapes that are cropped, broadcast, empty or of rank 0. The expected
// values and gradients are PyTorch's.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Doubles = std::vector<double>;

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }

// A leaf that requires a gradient, with the values 0, 1, 2, … in a shape.
Tensor counting(const Shape& shape) {
  return arange(shape.numel(), here()).reshape(shape).detach().set_requires_grad();
}
Tensor leaf(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, here()).set_requires_grad();
}
Tensor ids(const std::vector<std::int64_t>& values, const Shape& shape) {
  return from_vector(values, shape, {.device = test_device()});
}

void expect_is(const Tensor& x, const Shape& shape, const Doubles& values) {
  ASSERT_TRUE(x.defined());
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ(x.device(), test_device());
  EXPECT_EQ(x.shape(), shape);
  EXPECT_EQ(x.to_vector<double>(), values);
}

// Runs backward with y weighted by 1, 2, 3, ….
void backward(const Tensor& y) { y.backward((arange(y.numel(), here()) + 1).reshape(y.shape())); }

TEST(LikePyTorch, NegativePaddingCrops) {
  Tensor x = counting({3, 4});
  const Tensor y = x.pad({1, -1}, {-1, 2}, {.value = 9});
  expect_is(y, {3, 5}, {9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 5, 6, 7, 9, 9});
  backward(y);
  expect_is(x.grad(), {3, 4}, {0, 6, 7, 8, 0, 11, 12, 13, 0, 0, 0, 0});
  expect_is(x.pad({0, -1}, {-1, -2}), {2, 1}, {1, 5});
  expect_is(x.pad({0, -2}, {0, -2}), {3, 0}, {});
  expect_is(x.pad({0, -4}, {0, 2}, {.value = 7}), {3, 2}, {7, 7, 7, 7, 7, 7});
}

TEST(LikePyTorch, NegativePaddingCropsMirroredBorders) {
  Tensor x = counting({3, 4});
  const Tensor y = x.pad({0, 3}, {0, -2}, {.mode = PadMode::reflect});
  expect_is(y, {3, 5}, {3, 2, 1, 0, 1, 7, 6, 5, 4, 5, 11, 10, 9, 8, 9});
  backward(y);
  expect_is(x.grad(), {3, 4}, {4, 8, 2, 1, 9, 18, 7, 6, 14, 28, 12, 11});
  // Elements of the border may be cropped, too.
  expect_is(x.pad({0, -5}, {0, 3}, {.mode = PadMode::reflect}), {3, 2}, {1, 0, 5, 4, 9, 8});
  x.zero_grad();
  const Tensor z = x.pad({0, -3}, {0, 2}, {.mode = PadMode::replicate});
  expect_is(z, {3, 3}, {3, 3, 3, 7, 7, 7, 11, 11, 11});
  backward(z);
  expect_is(x.grad(), {3, 4}, {0, 0, 0, 6, 0, 0, 0, 15, 0, 0, 0, 24});
  expect_is(x.pad({0, -1}, {0, -1}, {.mode = PadMode::reflect}), {3, 2}, {1, 2, 5, 6, 9, 10});
}

TEST(LikePyTorch, NarrowCountsFromTheEnd) {
  Tensor x = counting({3, 4});
  const Tensor y = x.narrow(1, -3, 2);
  expect_is(y, {3, 2}, {1, 2, 5, 6, 9, 10});
  backward(y);
  expect_is(x.grad(), {3, 4}, {0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0});
  expect_is(narrow(x, -2, -1, 1), {1, 4}, {8, 9, 10, 11});
  expect_is(x.narrow(0, -3, 0), {0, 4}, {});
}

struct Convolved {
  Tensor x, weight, bias, y;
};
void expect_gradients(const Convolved& of, const Doubles& x, const Doubles& weight,
                      const Doubles& bias) {
  backward(of.y);
  expect_is(of.x.grad(), of.x.shape(), x);
  expect_is(of.weight.grad(), of.weight.shape(), weight);
  expect_is(of.bias.grad(), of.bias.shape(), bias);
}

TEST(LikePyTorch, ConvolutionsOfOneSequence) {
  Convolved c{counting({2, 4}), counting({3, 2, 2}), leaf({1, 2, 3}, {3}), {}};
  c.y = conv1d(c.x, c.weight, c.bias);
  expect_is(c.y, {3, 3}, {25, 31, 37, 66, 88, 110, 107, 145, 183});
  expect_gradients(c, {72, 168, 195, 114, 96, 222, 261, 150},
                   {8, 14, 32, 38, 17, 32, 77, 92, 26, 50, 122, 146}, {6, 15, 24});
  Convolved t{counting({2, 3}), counting({2, 3, 2}), leaf({1, 2, 3}, {3}), {}};
  t.y = conv_transpose1d(t.x, t.weight, t.bias, {.stride = 2});
  expect_is(t.y, {3, 6}, {19, 22, 25, 30, 31, 38, 26, 29, 36, 41, 46, 53, 33, 36, 47, 52, 61, 68});
  expect_gradients(t, {162, 192, 222, 432, 534, 636},
                   {13, 16, 31, 34, 49, 52, 40, 52, 112, 124, 184, 196}, {21, 57, 93});
}

TEST(LikePyTorch, ConvolutionsOfOneImage) {
  Convolved c{counting({1, 3, 3}), counting({2, 1, 2, 2}), leaf({1, 2}, {2}), {}};
  c.y = conv2d(c.x, c.weight, c.bias);
  expect_is(c.y, {2, 2, 2}, {20, 26, 38, 44, 53, 75, 119, 141});
  expect_gradients(c, {20, 50, 32, 60, 148, 92, 48, 114, 68}, {27, 37, 57, 67, 59, 85, 137, 163},
                   {10, 26});
  Convolved t{counting({1, 2, 2}), counting({1, 2, 2, 2}), leaf({1, 2}, {2}), {}};
  t.y = conv_transpose2d(t.x, t.weight, t.bias);
  expect_is(t.y, {2, 3, 3}, {1, 1, 2, 1, 5, 7, 5, 13, 10, 2, 6, 7, 10, 30, 24, 14, 34, 23});
  expect_gradients(t, {296, 324, 380, 408}, {25, 31, 43, 49, 79, 85, 97, 103}, {45, 126});
}

TEST(LikePyTorch, LayersAndPoolsTakeOneImage) {
  const NoGrad no_grad;
  const Tensor x = counting({2, 4, 4});
  const std::vector<std::function<Tensor(const Tensor&)>> images = {
      [c = nn::Conv2d(2, 3, 3, {.padding = 1, .device = test_device()})](const Tensor& t) mutable {
        return c(t);
      },
      [c = nn::ConvTranspose2d(2, 3, 2, {.device = test_device()})](const Tensor& t) mutable {
        return c(t);
      },
      [](const Tensor& t) { return max_pool2d(t, 2); },
      [](const Tensor& t) { return avg_pool2d(t, 2); },
      [](const Tensor& t) { return adaptive_avg_pool2d(t, 3); },
      [](const Tensor& t) { return nn::MaxPool2d(2)(t); },
  };
  for (const auto& op : images) {
    const Tensor one = op(x), batch = op(x.unsqueeze(0));
    EXPECT_EQ(one.unsqueeze(0).shape(), batch.shape());
    EXPECT_EQ(one.to_vector<float>(), batch.to_vector<float>());
  }
}

TEST(LikePyTorch, IndexingAlongTheAxisOfAScalar) {
  Tensor x = scalar(3, here()).set_requires_grad(), s = scalar(2, here()).set_requires_grad();
  const Tensor zero = ids({0}, {1}), none = ids({0}, {});
  const Tensor sum = index_add(x, 0, zero, s);
  expect_is(sum, {}, {5});
  (sum * 5).backward();
  expect_is(x.grad(), {}, {5});
  expect_is(s.grad(), {}, {5});
  expect_is(index_add(x, -1, none, s), {}, {5});
  x.zero_grad();
  const Tensor same = index_select(x, 0, none);
  expect_is(same, {}, {3});
  (same * 5).backward();
  expect_is(x.grad(), {}, {5});
  // An index of rank 0 counts as one with a single element.
  const Tensor m = counting({3, 2});
  expect_is(index_select(m, 0, ids({1}, {})), {1, 2}, {2, 3});
  expect_is(index_add(m, 0, ids({2}, {}), tensor({10, 20}, {1, 2}, here())), {3, 2},
            {0, 1, 2, 3, 14, 25});
}

TEST(LikePyTorch, LinearOfVectors) {
  Tensor x = counting({3}), w = counting({2, 3}), b = leaf({1, 2}, {2});
  const Tensor y = linear(x, w, b);
  expect_is(y, {2}, {6, 16});
  backward(y);
  expect_is(x.grad(), {3}, {6, 9, 12});
  expect_is(w.grad(), {2, 3}, {0, 1, 2, 0, 2, 4});
  expect_is(b.grad(), {2}, {1, 2});
}

TEST(LikePyTorch, LinearWithOneRowOfWeights) {
  Tensor x = counting({2, 3}), w = leaf({1, -1, 2}, {3});
  const Tensor y = linear(x, w);
  expect_is(y, {2}, {3, 9});
  backward(y);
  expect_is(x.grad(), {2, 3}, {1, -1, 2, 2, -2, 4});
  expect_is(w.grad(), {3}, {6, 9, 12});
  w.zero_grad();
  Tensor v = counting({3}), b = scalar(4, here()).set_requires_grad();
  const Tensor one = linear(v, w, b);
  expect_is(one, {}, {7});
  one.backward();
  expect_is(v.grad(), {3}, {1, -1, 2});
  expect_is(w.grad(), {3}, {0, 1, 2});
  expect_is(b.grad(), {}, {1});
}

TEST(LikePyTorch, ConcatLeavesOutEmptyVectors) {
  Tensor e = zeros({0}, here()).set_requires_grad(), x = counting({3, 4});
  for (const std::int64_t axis : {0, 1, -1}) {
    const Tensor y = cat({e, x, e}, axis);
    expect_is(y, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  }
  backward(cat({e, x, e}, 1));
  expect_is(e.grad(), {0}, {});
  expect_is(x.grad(), {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(cat({e, e}).shape(), Shape{0});
  EXPECT_EQ(cat({e, zeros({0, 4}, here())}, 1).shape(), (Shape{0, 4}));
  // Its dtype takes part in the promotion.
  EXPECT_EQ(cat({zeros({0}, here()), ids({1, 2}, {1, 2})}, 1).dtype(), DType::f32);
}

TEST(LikePyTorch, AnEmptyIndexNamesNothing) {
  Tensor x = counting({3, 4});
  const Tensor y = gather(x, 0, ids({}, {0, 7}));
  expect_is(y, {0, 7}, {});
  y.sum().backward();
  expect_is(x.grad(), {3, 4}, Doubles(12, 0));
  expect_is(gather(x, 1, ids({}, {0})), {0}, {});
  expect_is(gather(x, 1, ids({}, {9, 0})), {9, 0}, {});
  expect_is(gather(x, 1, ids({}, {0, 7, 2})), {0, 7, 2}, {});
  const Doubles all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  expect_is(scatter(x, 0, ids({}, {0}), 5), {3, 4}, all);
  expect_is(scatter(x, 0, ids({}, {0, 7}), Operand(x)), {3, 4}, all);
  expect_is(scatter_add(x, 0, ids({}, {0}), zeros({0}, here())), {3, 4}, all);
}

TEST(LikePyTorch, TakeAlongAxisBroadcastsAndCountsFromTheEnd) {
  Tensor x = counting({3, 4});
  const Tensor rows = take_along_axis(x, ids({1, -1}, {1, 2}), 1);
  expect_is(rows, {3, 2}, {1, 3, 5, 7, 9, 11});
  backward(rows);
  expect_is(x.grad(), {3, 4}, {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6});
  x.zero_grad();
  const Tensor columns = take_along_axis(x, ids({-1, 0}, {2, 1}), 0);
  expect_is(columns, {2, 4}, {8, 9, 10, 11, 0, 1, 2, 3});
  backward(columns);
  expect_is(x.grad(), {3, 4}, {5, 6, 7, 8, 0, 0, 0, 0, 1, 2, 3, 4});
  // The input broadcasts, too.
  Tensor row = counting({1, 4});
  const Tensor several = take_along_axis(row, ids({2, 0, -4, 1}, {2, 2}), 1);
  expect_is(several, {2, 2}, {2, 0, 0, 1});
  backward(several);
  expect_is(row.grad(), {1, 4}, {5, 4, 1, 0});
  expect_is(take_along_axis(x, ids({}, {0, 1}), 0), {0, 4}, {});
  EXPECT_THROW(take_along_axis(x, ids({-5}, {1, 1}), 1).eval().to_vector<float>(), IndexError);
}

TEST(LikePyTorch, TakeAlongAxisHasASecondGradient) {
  const Tensor index = ids({1, -1, -1, 0, 2, -3}, {3, 2});
  const CheckReport report = check_gradients(
      [&](const Tensor& t) {
        const Tensor slope =
            grad(take_along_axis(t * t, index, 1).square().sum(), t, {.create_graph = true});
        return slope;
      },
      rand({3, 4}, here()) + 0.5);
  EXPECT_TRUE(report.passed) << report.message;
}

TEST(LikePyTorch, CopyBroadcastsItsSource) {
  Tensor a = counting({4}), b = leaf({2, 3}, {2});
  Tensor y = (a * 2).reshape({2, 2});
  y.copy_(b);
  expect_is(y, {2, 2}, {2, 3, 2, 3});
  backward(y);
  expect_is(a.grad(), {4}, {0, 0, 0, 0});
  expect_is(b.grad(), {2}, {4, 6});
  Tensor z = zeros({2, 3}, here());
  z.copy_(ids({5}, {}));
  expect_is(z, {2, 3}, {5, 5, 5, 5, 5, 5});
  z.copy_(tensor({1, 2}, {2, 1}, here()));
  expect_is(z, {2, 3}, {1, 1, 1, 2, 2, 2});
  Tensor row = zeros({3}, here());
  EXPECT_THROW(row.copy_(z), ShapeError);
  EXPECT_THROW(row.copy_(zeros({1, 3}, here())), ShapeError);
}

TEST(LikePyTorch, BackwardAfterAFill) {
  Tensor a = counting({4});
  Tensor y = a * 2;
  const Tensor before = y * 3;
  y.fill_(3);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  expect_is(y, {4}, {3, 3, 3, 3});
  y.sum().backward({.retain_graph = true});
  expect_is(a.grad(), {4}, {0, 0, 0, 0});
  before.sum().backward();  // computed from the former value
  expect_is(a.grad(), {4}, {6, 6, 6, 6});

  a.zero_grad();
  Tensor z = a * 2;
  z.zero_();
  (z * a).sum().backward();
  expect_is(a.grad(), {4}, {0, 0, 0, 0});
  Tensor c = a * 2;
  c.copy_(ones({4}, here()));
  EXPECT_TRUE(c.requires_grad());
  a.zero_grad();
  (c * a).sum().backward();
  expect_is(a.grad(), {4}, {1, 1, 1, 1});
  // Under NoGrad the value changes and its history stays.
  Tensor kept = a * 2;
  {
    const NoGrad no_grad;
    kept.fill_(1);
  }
  a.zero_grad();
  kept.sum().backward();
  expect_is(a.grad(), {4}, {2, 2, 2, 2});
  // A constant stays one, and a leaf that requires a gradient is refused.
  Tensor constant = zeros({2}, here());
  constant.fill_(1);
  EXPECT_FALSE(constant.requires_grad());
  EXPECT_THROW(a.fill_(1), ArgumentError);
}

TEST(LikePyTorch, ASelectionKeepsTheHistoryItHadWhenItWasMade) {
  Tensor x = counting({3, 2});
  auto row = x[1];
  x.set_requires_grad(false);  // after the selection, before its value is read
  EXPECT_TRUE(row.requires_grad());
  (row * row).sum().backward();
  expect_is(x.grad(), {3, 2}, {0, 0, 4, 6, 0, 0});
  // A value that did not require a gradient does not get one.
  Tensor plain = zeros({2, 2}, here());
  auto part = plain[0];
  plain.set_requires_grad();
  EXPECT_FALSE(part.requires_grad());
  // The leaf has changed and is frozen in the meantime.
  Tensor y = counting({2, 2});
  auto first = y[0];
  {
    const NoGrad no_grad;
    y.fill_(7);
  }
  y.set_requires_grad(false);
  expect_is(first, {2}, {0, 1});
  (first * 3).sum().backward();
  expect_is(y.grad(), {2, 2}, {3, 3, 0, 0});
}

TEST(LikePyTorch, ASelectionThatIsFilledKeepsItsHistory) {
  Tensor x = counting({3, 2});
  auto row = (x * 2)[1];
  row.fill_(5);
  EXPECT_TRUE(row.requires_grad());
  (row + x[0]).sum().backward();
  expect_is(x.grad(), {3, 2}, {1, 1, 0, 0, 0, 0});
}

TEST(LikePyTorch, ASelectionThatWasWrittenThroughAnotherHasTheNewValue) {
  Tensor x = counting({3, 2}).detach(), v = leaf({7, 8}, {2});
  auto row = (x[ids({2, 0}, {2})][1] = v);  // through integers, so it selects from a copy
  expect_is(x, {3, 2}, {7, 8, 2, 3, 4, 5});
  expect_is(row, {2}, {7, 8});
  EXPECT_TRUE(row.requires_grad());
  backward(row);
  expect_is(v.grad(), {2}, {1, 2});
  auto more = (x.detach()[ids({1, 2}, {2})][0] += 10);
  expect_is(more, {2}, {12, 13});
}

}  // namespace
}  // namespace volta
