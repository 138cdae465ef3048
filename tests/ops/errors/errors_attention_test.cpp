// Mistakes in calls of attention, whole messages.
#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

Tensor f32(const Shape& shape) { return ones(shape, {.device = test_device()}); }
Tensor of(DType dtype, const Shape& shape) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}
const Tensor none;
const std::string name = "scaled_dot_product_attention: ";

Tensor call(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options = {}) {
  return scaled_dot_product_attention(q, k, v, std::move(options));
}

TEST(ErrorsAttention, Undefined) {
  const Tensor x = f32({1, 2, 3, 4});
  expect<ArgumentError>([&] { call(none, x, x); }, name + "q is not a tensor");
  expect<ArgumentError>([&] { call(x, none, x); }, name + "k is not a tensor");
  expect<ArgumentError>([&] { call(x, x, none); }, name + "v is not a tensor");
}

TEST(ErrorsAttention, DTypes) {
  const Tensor x = f32({2, 3, 4}), integers = of(DType::i64, {2, 3, 4}),
               half = of(DType::f16, {2, 3, 4});
  expect<DTypeError>([&] { call(integers, integers, integers); },
                     name + "expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { call(x, half, x); }, name + "q, k and v are f32, f16 and f32");
  expect<DTypeError>([&] { call(half, half, x); }, name + "q, k and v are f16, f16 and f32");
  expect<DTypeError>([&] { call(x, x, x, {.mask = of(DType::i64, {3, 3})}); },
                     name + "the mask must be bool or f32 as q, got i64");
  expect<DTypeError>([&] { call(half, half, half, {.mask = f32({3, 3})}); },
                     name + "the mask must be bool or f16 as q, got f32");
}

TEST(ErrorsAttention, Shapes) {
  expect<ShapeError>(
      [] { call(f32({4}), f32({3, 4}), f32({3, 4})); },
      name + "q, k and v need [..., heads, length, size], got [4], [3, 4] and [3, 4]");
  expect<ShapeError>([] { call(f32({3, 4}), f32({3, 5}), f32({3, 5})); },
                     name + "queries [3, 4] and keys [3, 5] need one size");
  expect<ShapeError>([] { call(f32({3, 0}), f32({3, 0}), f32({3, 4})); },
                     name + "queries [3, 0] and keys [3, 0] need one size");
  expect<ShapeError>([] { call(f32({3, 4}), f32({5, 4}), f32({6, 4})); },
                     name + "keys [5, 4] and values [6, 4] differ in number");
  expect<ShapeError>([] { call(f32({3, 5, 4}), f32({2, 5, 4}), f32({2, 5, 4})); },
                     name +
                         "the heads of q must be a multiple of those of k and v, got [3, 5, 4], "
                         "[2, 5, 4] and [2, 5, 4]");
  expect<ShapeError>([] { call(f32({4, 5, 4}), f32({2, 5, 4}), f32({1, 5, 4})); },
                     name +
                         "the heads of q must be a multiple of those of k and v, got [4, 5, 4], "
                         "[2, 5, 4] and [1, 5, 4]");
  expect<ShapeError>([] { call(f32({3, 1, 5, 4}), f32({2, 1, 5, 4}), f32({2, 1, 5, 4})); },
                     name + "shapes [3] and [2] do not broadcast");
}

TEST(ErrorsAttention, Masks) {
  const Tensor q = f32({2, 3, 5, 4}), k = f32({2, 3, 6, 4});
  const auto wrong = [&](const Shape& mask) {
    expect<ShapeError>(
        [&] { call(q, k, k, {.mask = of(DType::boolean, mask)}); },
        name + "mask " + to_string(mask) + " does not broadcast to the scores [2, 3, 5, 6]");
  };
  wrong({6, 5});
  wrong({2, 5, 6});
  wrong({1, 2, 3, 5, 6});
  wrong({4});
}

TEST(ErrorsAttention, Numbers) {
  const Tensor x = f32({2, 3, 4});
  expect<ArgumentError>([&] { call(x, x, x, {.dropout = -0.5}); },
                        name + "dropout = -0.5 is not in [0, 1]");
  expect<ArgumentError>([&] { call(x, x, x, {.dropout = 1.5}); },
                        name + "dropout = 1.5 is not in [0, 1]");
  expect<ArgumentError>([&] { call(x, x, x, {.scale = std::numeric_limits<double>::infinity()}); },
                        name + "scale = inf is not finite");
}

}  // namespace
}  // namespace volta::errors
