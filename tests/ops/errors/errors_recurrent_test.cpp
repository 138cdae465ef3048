// Errors of recurrent(), whole messages; those of its layers are in nn/recurrent_test.cpp.
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

Tensor f32(const Shape& shape) { return ones(shape, {.device = test_device()}); }
const Tensor none;

TEST(ErrorsRecurrent, Undefined) {
  expect<ArgumentError>([&] { recurrent(Cell::gru, none, f32({6, 2})); },
                        "recurrent: the input is not a tensor");
  expect<ArgumentError>([&] { recurrent(Cell::gru, f32({3, 1, 6}), none); },
                        "recurrent: the weight is not a tensor");
  expect<ArgumentError>(
      [&] { recurrent(Cell::gru, f32({3, 1, 6}), f32({6, 2}), none, none, f32({1, 2})); },
      "recurrent: only an LSTM has a state c");
  expect<ArgumentError>(
      [&] { recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), none, f32({1, 2})); },
      "recurrent: a state h without c");
  expect<ArgumentError>(
      [&] { recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), none, none, f32({1, 2})); },
      "recurrent: a state c without h");
  expect<ArgumentError>(
      [&] {
        recurrent(Cell::gru, f32({3, 1, 6}), f32({6, 2}), none, none, none,
                  {.projection = f32({1, 2})});
      },
      "recurrent: only an LSTM has a projection");
}

TEST(ErrorsRecurrent, DTypes) {
  const Tensor integers = ones({3, 1, 8}, {.dtype = DType::i64, .device = test_device()});
  expect<DTypeError>([&] { recurrent(Cell::lstm, integers, f32({8, 2})); },
                     "recurrent: expected a floating-point tensor, got i64");
  const Tensor half = ones({8, 2}, {.dtype = DType::f16, .device = test_device()});
  expect<DTypeError>([&] { recurrent(Cell::lstm, f32({3, 1, 8}), half); },
                     "recurrent: x is f32, another operand is f16");
}

TEST(ErrorsRecurrent, Shapes) {
  expect<ShapeError>([&] { recurrent(Cell::lstm, f32({3, 8}), f32({8, 2})); },
                     "recurrent: x [3, 8] is not [length, batch, 4 * size]");
  expect<ShapeError>([&] { recurrent(Cell::gru, f32({3, 1, 8}), f32({8, 2})); },
                     "recurrent: x [3, 1, 8] is not [length, batch, 3 * size]");
  expect<ShapeError>([&] { recurrent(Cell::lstm, f32({3, 1, 8}), f32({2, 8})); },
                     "recurrent: weight [2, 8] is not [8, 2]");
  expect<ShapeError>([&] { recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), f32({2})); },
                     "recurrent: bias [2] is not [8]");
  expect<ShapeError>([&] { recurrent(Cell::gru, f32({3, 1, 6}), f32({6, 2}), none, f32({2, 2})); },
                     "recurrent: h [2, 2] is not [1, 2]");
  expect<ShapeError>(
      [&] { recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), none, f32({1, 2}), f32({1, 3})); },
      "recurrent: c [1, 3] is not [1, 2]");
  expect<ShapeError>(
      [&] {
        recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), none, none, none,
                  {.projection = f32({1, 3})});
      },
      "recurrent: projection [1, 3] is not [size of h, 2]");
  expect<ShapeError>(
      [&] {
        recurrent(Cell::lstm, f32({3, 1, 8}), f32({8, 2}), none, none, none,
                  {.projection = f32({1, 2})});
      },
      "recurrent: weight [8, 2] is not [8, 1]");
}

}  // namespace
}  // namespace volta::errors
