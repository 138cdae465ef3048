// Errors of indexing: refused at the call or, if they are in values, reported by the next read.
// Whole messages are compared.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

Tensor f32(const Shape& shape) { return ones(shape, {.device = test_device()}); }
Tensor of(DType dtype, const Shape& shape) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}
Tensor ids(std::initializer_list<double> values) {
  return tensor(values, {.dtype = DType::i64, .device = test_device()});
}
Tensor ids(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, {.dtype = DType::i64, .device = test_device()});
}
Tensor flags(const Shape& shape) { return of(DType::boolean, shape); }
const Tensor none;

// ---- Undefined tensors.

TEST(ErrorsIndexing, Undefined) {
  const Tensor x = f32({2, 3}), i = ids({0});
  expect<ArgumentError>([] { none[0]; }, "index: the input is not a tensor");
  expect<ArgumentError>([] { none.index({0}); }, "index: the input is not a tensor");
  expect<ArgumentError>([] { none.slice(0); }, "slice: the input is not a tensor");
  expect<ArgumentError>([&] { x[none]; }, "index: an index is not a tensor");
  expect<ArgumentError>([&] { x[0] = none; }, "index: the value is not a tensor");
  expect<ArgumentError>([&] { x[0] += none; }, "+=: the value is not a tensor");
  expect<ArgumentError>([&] { index_select(none, 0, i); },
                        "index_select: the input is not a tensor");
  expect<ArgumentError>([&] { index_select(x, 0, none); },
                        "index_select: the index is not a tensor");
  expect<ArgumentError>([&] { index_add(none, 0, i, x); }, "index_add: the input is not a tensor");
  expect<ArgumentError>([&] { index_add(x, 0, none, x); }, "index_add: the index is not a tensor");
  expect<ArgumentError>([&] { index_add(x, 0, i, none); }, "index_add: the source is not a tensor");
  expect<ArgumentError>([&] { gather(none, 0, i); }, "gather: the input is not a tensor");
  expect<ArgumentError>([&] { gather(x, 0, none); }, "gather: the index is not a tensor");
  expect<ArgumentError>([&] { take_along_axis(none, i, 0); },
                        "take_along_axis: the input is not a tensor");
  expect<ArgumentError>([&] { take_along_axis(x, none, 0); },
                        "take_along_axis: the index is not a tensor");
  expect<ArgumentError>([&] { scatter(none, 0, i, 1); }, "scatter: the input is not a tensor");
  expect<ArgumentError>([&] { scatter(x, 0, none, 1); }, "scatter: the index is not a tensor");
  expect<ArgumentError>([&] { scatter(x, 0, ids({0}, {1, 1}), none); },
                        "scatter: the source is not a tensor");
  expect<ArgumentError>([&] { scatter_add(none, 0, i, x); },
                        "scatter_add: the input is not a tensor");
  expect<ArgumentError>([&] { scatter_add(x, 0, none, x); },
                        "scatter_add: the index is not a tensor");
  expect<ArgumentError>([&] { scatter_add(x, 0, i, none); },
                        "scatter_add: the source is not a tensor");
  expect<ArgumentError>([&] { masked_fill(none, flags({2}), 0); },
                        "masked_fill: the input is not a tensor");
  expect<ArgumentError>([&] { masked_fill(x, none, 0); }, "masked_fill: the mask is not a tensor");
  expect<ArgumentError>([&] { masked_fill(x, flags({3}), none); },
                        "masked_fill: the value is not a tensor");
  expect<ArgumentError>([&] { masked_select(none, flags({2})); },
                        "masked_select: the input is not a tensor");
  expect<ArgumentError>([&] { masked_select(x, none); }, "masked_select: the mask is not a tensor");
  expect<ArgumentError>([] { nonzero(none); }, "nonzero: the input is not a tensor");
  expect<ArgumentError>([] { one_hot(none, 3); }, "one_hot: the index is not a tensor");
  expect<ArgumentError>([] { tril(none); }, "tril: the input is not a tensor");
  expect<ArgumentError>([] { triu(none); }, "triu: the input is not a tensor");
}

// ---- Entries.

TEST(ErrorsIndexing, Numbers) {
  const Tensor x = f32({3, 4});
  expect<IndexError>([&] { x[3]; }, "index: 3 is out of range [-3, 3) along axis 0 of [3, 4]");
  expect<IndexError>([&] { x[-4]; }, "index: -4 is out of range [-3, 3) along axis 0 of [3, 4]");
  expect<IndexError>([&] { x.index({0, 4}); },
                     "index: 4 is out of range [-4, 4) along axis 1 of [3, 4]");
  expect<IndexError>([&] { x.index({ellipsis, kLeast}); },
                     "index: -9223372036854775808 is out of range [-4, 4) along axis 1 of [3, 4]");
  expect<IndexError>([&] { x[1][4]; }, "index: 4 is out of range [-4, 4) along axis 0 of [4]");
  expect<IndexError>([&] { f32({0, 4})[0]; },
                     "index: 0 is out of range [0, 0) along axis 0 of [0, 4]");
  expect<IndexError>([&] { x[5] = 1; }, "index: 5 is out of range [-3, 3) along axis 0 of [3, 4]");
  expect<ShapeError>([&] { f32({})[0]; }, "index: entries for 1 axes, [] has 0");
  expect<ShapeError>([&] { x.index({0, 0, 0}); }, "index: entries for 3 axes, [3, 4] has 2");
  expect<ShapeError>([&] { x[0][0][0]; }, "index: entries for 1 axes, [] has 0");
}

TEST(ErrorsIndexing, Ranges) {
  const Tensor x = f32({3, 4});
  expect<ArgumentError>([&] { x.slice(1, 0, 2, 0); }, "slice: step 0 along axis 1");
  expect<ArgumentError>([&] { x.slice(0, 0, 2, kLeast); },
                        "slice: step -9223372036854775808 along axis 0");
  expect<ArgumentError>([&] { x.index({Slice{}, Slice{.step = 0}}); },
                        "index: step 0 along axis 1");
  expect<ShapeError>([&] { x.slice(2, 0, 1); }, "slice: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { x.slice(-3, 0, 1); }, "slice: axis -3 is out of range for [3, 4]");
  expect<ShapeError>([&] { x[0].slice(1, 0, 1) = 0; }, "slice: axis 1 is out of range for [4]");
  expect<ArgumentError>([&] { x.index({ellipsis, 0, ellipsis}); }, "index: more than one ellipsis");
  expect<ShapeError>([&] { f32({1, 1, 1, 1, 1, 1, 1, 1}).index({newaxis}).shape(); },
                     "index: 9 axes, at most 8");
}

TEST(ErrorsIndexing, TensorsAsEntries) {
  const Tensor x = f32({3, 4});
  expect<DTypeError>([&] { x[f32({2})]; }, "index: expected integer or bool indices, got f32");
  expect<DTypeError>([&] { x.index({0, of(DType::f64, {2})}); },
                     "index: expected integer or bool indices, got f64");
  expect<ShapeError>([&] { x[flags({4})]; }, "index: a mask of [4] does not fit axis 0 of [3, 4]");
  expect<ShapeError>([&] { x.index({Slice{}, flags({3})}); },
                     "index: a mask of [3] does not fit axis 1 of [3, 4]");
  expect<ShapeError>([&] { x[flags({3, 3})]; },
                     "index: a mask of [3, 3] does not fit axis 0 of [3, 4]");
  expect<ShapeError>([&] { x[flags({})]; }, "index: a mask of [] does not fit axis 0 of [3, 4]");
  expect<ShapeError>([&] { x[flags({3, 4, 1})]; }, "index: entries for 3 axes, [3, 4] has 2");
  expect<ShapeError>([&] { x.index({ids({0, 1}), ids({0, 1, 2})}).eval(); },
                     "index: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([&] { f32({0, 4})[ids({0})].eval(); }, "index: nothing to index in [0, 4]");
}

// ---- Assignment.

TEST(ErrorsIndexing, ValuesThatDoNotFit) {
  const Tensor x = f32({3, 4});
  expect<ShapeError>([&] { x[0] = f32({3}); }, "index: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[0] = f32({2, 4}); },
                     "index: [2, 4] does not go into a selection of [4]");
  expect<ShapeError>([&] { x.slice(0, 0, 2) = f32({3, 4}); },
                     "slice: [3, 4] does not go into a selection of [2, 4]");
  expect<ShapeError>([&] { x[0] += f32({3}); }, "+=: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[0] -= f32({3}); }, "-=: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[0] *= f32({3}); }, "*=: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[0] /= f32({3}); }, "/=: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[0].copy_(f32({3})); },
                     "index: [3] does not go into a selection of [4]");
  expect<ShapeError>([&] { x[ids({0, 1})] = f32({3, 4}); },
                     "index: [3, 4] does not go into a selection of [2, 4]");
  expect<ShapeError>([&] { x[flags({3})] = f32({2, 4}); },
                     "index: [2, 4] does not go into a selection of [3, 4]");
  expect<ShapeError>([&] { x[flags({3})] = f32({1, 3}); },
                     "index: [1, 3] does not go into a selection of [1, 4]");
  expect<ShapeError>([&] { f32({0, 4})[ids({0})] = 1; }, "index: nothing to index in [0, 4]");
  const Tensor whole = of(DType::i32, {3, 4}), bytes = of(DType::u8, {3});
  expect<DTypeError>([&] { whole[0] /= 2; },
                     "/=: the result is f32 and does not fit into i32 in place");
  expect<DTypeError>([&] { whole[ids({0})] += 0.5; },
                     "+=: the result is f32 and does not fit into i32 in place");
  expect<DTypeError>([&] { whole.slice(1, 0, 2) *= f32({2}); },
                     "*=: the result is f32 and does not fit into i32 in place");
  expect<ArgumentError>([&] { bytes[0] = 300; }, "index: 300 does not fit u8");
  expect<ArgumentError>([&] { bytes[0].fill_(-1); }, "index: -1 does not fit u8");
}

TEST(ErrorsIndexing, LeavesAndNames) {
  Tensor w = f32({2, 2});
  w.set_requires_grad();
  expect<ArgumentError>(
      [&] { w[0] = 1; },
      "index: a leaf that requires a gradient changes in place only under NoGrad");
  expect<ArgumentError>([&] { w.slice(0, 0, 1) += 1; },
                        "+=: a leaf that requires a gradient changes in place only under NoGrad");
  expect<ArgumentError>(
      [&] { w[ids({0})] = 1; },
      "index: a leaf that requires a gradient changes in place only under NoGrad");
  const Tensor x = f32({2, 2});
  auto row = x[0];
  row = f32({2});
  expect<ArgumentError>([&] { std::move(row) = 1; },
                        "index: the tensor is no longer a part of another");
  expect<ArgumentError>([&] { std::move(row) += 1; },
                        "+=: the tensor is no longer a part of another");
}

// ---- Along an axis.

TEST(ErrorsIndexing, AlongAnAxis) {
  const Tensor x = f32({3, 4}), i = ids({0, 1}), wide = ids({0, 1}, {1, 2});
  expect<ShapeError>([&] { index_select(x, 2, i); },
                     "index_select: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { index_select(x, 0, wide); }, "index_select: indices [1, 2] need 1 axis");
  expect<DTypeError>([&] { index_select(x, 0, f32({2})); },
                     "index_select: expected integer indices, got f32");
  expect<DTypeError>([&] { index_select(x, 0, flags({3})); },
                     "index_select: expected integer indices, got bool");
  expect<ShapeError>([&] { index_select(f32({0, 4}), 0, i); },
                     "index_select: no elements along axis 0 of [0, 4]");
  expect<ShapeError>([&] { index_add(f32({}), 0, i, x); },
                     "index_add: [3, 4] at indices [2] does not go into [1] along axis 0");
  expect<ShapeError>([&] { index_select(f32({}), 0, i); }, "index_select: indices [2] of a scalar");
  expect<ShapeError>([&] { index_add(x, 1, i, f32({3, 3})); },
                     "index_add: [3, 3] at indices [2] does not go into [3, 4] along axis 1");
  expect<ShapeError>([&] { index_add(x, 0, wide, f32({2, 4})); },
                     "index_add: [2, 4] at indices [1, 2] does not go into [3, 4] along axis 0");
  expect<DTypeError>([&] { index_add(x, 0, i, of(DType::f64, {2, 4})); },
                     "index_add: input is f32, source is f64");
  expect<DTypeError>([&] { index_add(flags({3}), 0, i, flags({2})); },
                     "index_add: expected a floating-point or integer tensor, got bool");
  expect<DTypeError>([&] { index_add(x, 0, f32({2}), f32({2, 4})); },
                     "index_add: expected integer indices, got f32");
  expect<ShapeError>([&] { index_add(f32({0, 4}), 0, i, f32({2, 4})); },
                     "index_add: no elements along axis 0 of [0, 4]");
  expect<ShapeError>([&] { index_add(x, 2, i, x); },
                     "index_add: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { gather(x, -3, wide); }, "gather: axis -3 is out of range for [3, 4]");
  expect<ShapeError>([&] { gather(x, 0, i); },
                     "gather: indices [2] do not fit [3, 4] along axis 0");
  expect<ShapeError>([&] { gather(x, 0, ids({0, 0, 0, 0, 0}, {1, 5})); },
                     "gather: indices [1, 5] do not fit [3, 4] along axis 0");
  expect<ShapeError>([&] { gather(f32({3, 0}), 1, wide); },
                     "gather: no elements along axis 1 of [3, 0]");
  expect<DTypeError>([&] { gather(x, 0, x); }, "gather: expected integer indices, got f32");
  expect<ShapeError>([&] { take_along_axis(x, ids({0, 1}, {2, 1}), 1); },
                     "take_along_axis: indices [2, 1] do not fit [3, 4] along axis 1");
  expect<ShapeError>([&] { take_along_axis(x, i, 1); },
                     "take_along_axis: indices [2] do not fit [3, 4] along axis 1");
  expect<ShapeError>([&] { take_along_axis(x, wide, 2); },
                     "take_along_axis: axis 2 is out of range for [3, 4]");
  expect<DTypeError>([&] { take_along_axis(x, flags({3, 4}), 1); },
                     "take_along_axis: expected integer indices, got bool");
  expect<ShapeError>([&] { take_along_axis(f32({3, 0}), ids({0, 0, 0}, {3, 1}), 1); },
                     "take_along_axis: no elements along axis 1 of [3, 0]");
}

TEST(ErrorsIndexing, Scattering) {
  const Tensor x = f32({3, 4}), i = ids({0, 1}, {1, 2});
  expect<ShapeError>([&] { scatter(x, 2, i, 1); }, "scatter: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { scatter(x, 0, ids({0, 1}), 1); },
                     "scatter: indices [2] do not fit [3, 4] along axis 0");
  expect<ShapeError>([&] { scatter(x, 0, i, f32({1, 1})); },
                     "scatter: indices [1, 2] do not fit the source [1, 1]");
  expect<ShapeError>([&] { scatter(x, 0, i, f32({2})); },
                     "scatter: indices [1, 2] do not fit the source [2]");
  expect<DTypeError>([&] { scatter(x, 0, i, of(DType::f64, {1, 2})); },
                     "scatter: input is f32, source is f64");
  expect<DTypeError>([&] { scatter(x, 0, x, 1); }, "scatter: expected integer indices, got f32");
  expect<ArgumentError>([&] { scatter(of(DType::u8, {3, 4}), 0, i, 256); },
                        "scatter: 256 does not fit u8");
  expect<ShapeError>([&] { scatter(f32({0, 4}), 0, i, 1); },
                     "scatter: no elements along axis 0 of [0, 4]");
  expect<ShapeError>([&] { scatter_add(x, -3, i, x); },
                     "scatter_add: axis -3 is out of range for [3, 4]");
  expect<ShapeError>([&] { scatter_add(x, 1, ids({0, 0, 0, 0}, {4, 1}), f32({4, 4})); },
                     "scatter_add: indices [4, 1] do not fit [3, 4] along axis 1");
  expect<ShapeError>([&] { scatter_add(x, 0, i, f32({1, 1})); },
                     "scatter_add: indices [1, 2] do not fit the source [1, 1]");
  expect<DTypeError>([&] { scatter_add(x, 0, i, of(DType::i64, {1, 2})); },
                     "scatter_add: input is f32, source is i64");
  expect<DTypeError>([&] { scatter_add(flags({3, 4}), 0, i, flags({1, 2})); },
                     "scatter_add: expected a floating-point or integer tensor, got bool");
  expect<DTypeError>([&] { scatter_add(x, 0, f32({1, 2}), x); },
                     "scatter_add: expected integer indices, got f32");
}

// ---- Masks, one hot, triangles.

TEST(ErrorsIndexing, Masks) {
  const Tensor x = f32({3, 4});
  expect<DTypeError>([&] { masked_fill(x, x, 0); }, "masked_fill: expected a bool mask, got f32");
  expect<ShapeError>([&] { masked_fill(x, flags({3}), 0); },
                     "masked_fill: shapes [3, 4] and [3] do not broadcast");
  expect<ShapeError>([&] { masked_fill(x, flags({4}), f32({2})); },
                     "masked_fill: expected a value of one element, got [2]");
  expect<ArgumentError>([&] { masked_fill(of(DType::u8, {3}), flags({3}), -1); },
                        "masked_fill: -1 does not fit u8");
  expect<DTypeError>([&] { masked_select(x, of(DType::u8, {3, 4})); },
                     "masked_select: expected a bool mask, got u8");
  expect<ShapeError>([&] { masked_select(x, flags({3})); },
                     "masked_select: shapes [3, 4] and [3] do not broadcast");
  expect<ArgumentError>([&] { masked_select(x, flags({4}), {.size = -1}); },
                        "masked_select: a size of -1");
  expect<ArgumentError>(
      [&] { masked_select(of(DType::u8, {4}), flags({4}), {.size = 5, .fill = 300}); },
      "masked_select: 300 does not fit u8");
  expect<ArgumentError>([&] { nonzero(x, {.size = -2}); }, "nonzero: a size of -2");
  expect<DTypeError>([&] { one_hot(x, 3); }, "one_hot: expected integer indices, got f32");
  expect<ArgumentError>([&] { one_hot(ids({0}), 0); }, "one_hot: 0 classes");
  expect<ArgumentError>([&] { one_hot(ids({0}), -2); }, "one_hot: -2 classes");
  expect<ArgumentError>([&] { one_hot(ids({-3, -1})); },
                        "one_hot: the largest index is -1: no classes");
  expect<ShapeError>(
      [&] { one_hot(ids({0, 1}), std::int64_t{1} << 62); },
      "one_hot: the number of elements of [2, 4611686018427387904] exceeds 2^63 - 1");
  expect<ArgumentError>([&] { one_hot(ids({}, {0})); },
                        "one_hot: no indices to count the classes by");
  expect<ShapeError>([&] { tril(f32({3})); }, "tril: expected matrices, got [3]");
  expect<ShapeError>([&] { triu(f32({})); }, "triu: expected matrices, got []");
}

// ---- Order.

TEST(ErrorsIndexing, Order) {
  const Tensor x = f32({3, 4});
  expect<ArgumentError>([] { none.cumsum(0); }, "cumsum: the input is not a tensor");
  expect<ArgumentError>([] { argsort(none); }, "argsort: the input is not a tensor");
  expect<ArgumentError>([] { topk(none, 1); }, "topk: the input is not a tensor");
  expect<ShapeError>([&] { argsort(x, 2); }, "argsort: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { topk(x, 1, -3); }, "topk: axis -3 is out of range for [3, 4]");
  expect<ArgumentError>([&] { topk(x, -1, 0); }, "topk: -1 of the elements along axis 0 of [3, 4]");
}

// ---- Values out of range are reported by the next read, with the source location of the call.

template <class Act>
void expect_at_look(Act act, int line, const std::string& op, const std::string& what) {
  const std::string file = __FILE__;
  expect<IndexError>(act, op + " (" + file + ":" + std::to_string(line) + "): " + what);
}

TEST(ErrorsIndexing, ValuesOutOfRangeNameOpPlaceIndexAndRange) {
  const Tensor x = f32({3, 4});
  expect_at_look([&] { x[ids({0, 3})].eval(), synchronize(test_device()); }, __LINE__, "index",
                 "index 3 is out of range [-3, 3)");
  expect_at_look([&] { x[ids({-4})].eval(), synchronize(test_device()); }, __LINE__, "index",
                 "index -4 is out of range [-3, 3)");
  expect_at_look([&] { x.index({Slice{}, ids({4})}).eval(), synchronize(test_device()); }, __LINE__,
                 "index", "index 4 is out of range [-4, 4)");
  expect_at_look([&] { index_select(x, 1, ids({-1})).to_vector<float>(); }, __LINE__,
                 "index_select", "index -1 is out of range [0, 4)");
  expect_at_look([&] { index_add(x, 0, ids({5}), f32({1, 4})).to_vector<float>(); }, __LINE__,
                 "index_add", "index 5 is out of range [0, 3)");
  expect_at_look([&] { gather(x, 1, ids({4}, {1, 1})).to_vector<float>(); }, __LINE__, "gather",
                 "index 4 is out of range [0, 4)");
  expect_at_look([&] { gather(x, 0, ids({-1}, {1, 1})).to_vector<float>(); }, __LINE__, "gather",
                 "index -1 is out of range [0, 3)");
  const Tensor column = ids({4, 0, 0}, {3, 1});
  expect_at_look([&] { take_along_axis(x, column, 1).to_vector<float>(); }, __LINE__,
                 "take_along_axis", "index 4 is out of range [-4, 4)");
  expect_at_look([&] { take_along_axis(x, ids({-5}, {1, 1}), 1).to_vector<float>(); }, __LINE__,
                 "take_along_axis", "index -5 is out of range [-4, 4)");
  expect_at_look([&] { embedding(x, ids({3})).to_vector<float>(); }, __LINE__, "embedding",
                 "index 3 is out of range [0, 3)");
  expect_at_look([&] { cross_entropy(x, ids({0, 4, 1})).item(); }, __LINE__, "cross_entropy",
                 "index 4 is out of range [0, 4)");
  expect_at_look([&] { scatter(x, 0, ids({3}, {1, 1}), 1).to_vector<float>(); }, __LINE__,
                 "scatter", "index 3 is out of range [0, 3)");
  expect_at_look([&] { scatter_add(x, 1, ids({-2}, {1, 1}), x).to_vector<float>(); }, __LINE__,
                 "scatter_add", "index -2 is out of range [0, 4)");
  expect_at_look([&] { one_hot(ids({1, 7}), 3).to_vector<std::int64_t>(); }, __LINE__, "one_hot",
                 "index 7 is out of range [0, 3)");
  expect_at_look([&] { one_hot(ids({-1}), 3).to_vector<std::int64_t>(); }, __LINE__, "one_hot",
                 "index -1 is out of range [0, 3)");
  Tensor y = x.clone();
  const auto write = [&] { y[ids({9})] = 1; };
  const int written = __LINE__ - 1;
  expect_at_look([&] { write(), y.to_vector<float>(); }, written, "index",
                 "index 9 is out of range [-3, 3)");
  // No error remains pending.
  EXPECT_EQ(x.sum().item(), 12);
}

}  // namespace
}  // namespace volta::errors
