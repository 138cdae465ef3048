// Mistakes in calls of products, whole messages.
#include <gtest/gtest.h>

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

TEST(ErrorsProduct, Undefined) {
  using Op = Tensor (*)(const Tensor&, const Tensor&, SourceLocation);
  const std::pair<std::string, Op> ops[] = {
      {"matmul", matmul}, {"bmm", bmm}, {"dot", dot}, {"outer", outer}};
  for (const auto& [name, op] : ops) {
    expect<ArgumentError>([&] { op(none, f32({2}), SourceLocation::here()); },
                          name + ": the left operand is not a tensor");
    expect<ArgumentError>([&] { op(f32({2}), none, SourceLocation::here()); },
                          name + ": the right operand is not a tensor");
  }
  expect<ArgumentError>([] { einsum("i,i->", {f32({2}), none}); },
                        "einsum: an operand is not a tensor");
}

TEST(ErrorsProduct, Shapes) {
  expect<ShapeError>([] { matmul(f32({}), f32({2})); },
                     "matmul: both operands need at least one axis: [] x [2]");
  expect<ShapeError>([] { matmul(f32({2, 3}), f32({2, 3})); },
                     "matmul: inner dimensions differ: [2, 3] x [2, 3]");
  expect<ShapeError>([] { matmul(f32({3}), f32({2})); },
                     "matmul: inner dimensions differ: [3] x [2]");
  expect<ShapeError>([] { matmul(f32({2, 3, 4}), f32({3, 4, 5})); },
                     "matmul: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([] { bmm(f32({2, 3}), f32({3, 2})); },
                     "bmm: expected [b, n, k] x [b, k, m], got [2, 3] x [3, 2]");
  expect<ShapeError>([] { bmm(f32({2, 3, 4}), f32({1, 4, 5})); },
                     "bmm: expected [b, n, k] x [b, k, m], got [2, 3, 4] x [1, 4, 5]");
  expect<ShapeError>([] { bmm(f32({2, 3, 4}), f32({2, 3, 4})); },
                     "bmm: expected [b, n, k] x [b, k, m], got [2, 3, 4] x [2, 3, 4]");
  expect<ShapeError>([] { dot(f32({2}), f32({3})); },
                     "dot: expected two vectors of one length, got [2] and [3]");
  expect<ShapeError>([] { dot(f32({2, 1}), f32({2})); },
                     "dot: expected two vectors of one length, got [2, 1] and [2]");
  expect<ShapeError>([] { outer(f32({2, 1}), f32({2})); },
                     "outer: expected two vectors, got [2, 1] and [2]");
  expect<ShapeError>([] { outer(f32({2}), f32({})); },
                     "outer: expected two vectors, got [2] and []");
}

TEST(ErrorsProduct, DTypes) {
  const auto flags = [](const Shape& shape) { return of(DType::boolean, shape); };
  expect<DTypeError>([&] { matmul(flags({2, 2}), flags({2, 2})); },
                     "matmul: expected numbers, got bool");
  expect<DTypeError>([&] { bmm(flags({1, 2, 2}), flags({1, 2, 2})); },
                     "bmm: expected numbers, got bool");
  expect<DTypeError>([&] { dot(flags({2}), flags({2})); }, "dot: expected numbers, got bool");
  expect<DTypeError>([&] { einsum("i->", {flags({2})}); }, "einsum: expected numbers, got bool");
}

TEST(ErrorsProduct, Equations) {
  const Tensor x = f32({2, 3}), square = f32({3, 3});
  expect<ArgumentError>([&] { einsum("ij,jk->ik", {x}); },
                        "einsum: 'ij,jk->ik' names 2 operands, got 1");
  expect<ArgumentError>([&] { einsum("ij", {x, x}); }, "einsum: 'ij' names 1 operands, got 2");
  expect<ArgumentError>([&] { einsum("ij->i", {}); }, "einsum: 'ij->i' names 1 operands, got 0");
  expect<ArgumentError>([&] { einsum("i1->i", {x}); }, "einsum: '1' in 'i1->i' is no label");
  expect<ArgumentError>([&] { einsum("ij=>i", {x}); }, "einsum: '=' in 'ij=>i' is no label");
  expect<ArgumentError>([&] { einsum("i.j", {x}); }, "einsum: '.' in 'i.j' is no label");
  expect<ArgumentError>([&] { einsum("ij->i->j", {x}); }, "einsum: '-' in 'ij->i->j' is no label");
  expect<ArgumentError>([&] { einsum("...i...", {x}); },
                        "einsum: more than one ellipsis in '...i...'");
  expect<ArgumentError>([&] { einsum("ij->......", {x}); },
                        "einsum: more than one ellipsis in '......'");
  expect<ArgumentError>([&] { einsum("ij->ik", {x}); },
                        "einsum: label 'k' of the output is in no operand");
  expect<ArgumentError>([&] { einsum("ij->ii", {x}); }, "einsum: label 'i' is in the output twice");
  expect<ShapeError>([&] { einsum("ijk->i", {x}); },
                     "einsum: operand 0 is [2, 3], 'ijk->i' names 3 axes");
  expect<ShapeError>([&] { einsum("ij,j->i", {x, square}); },
                     "einsum: operand 1 is [3, 3], 'ij,j->i' names 1 axes");
  expect<ShapeError>([&] { einsum("...ijk->i", {x}); },
                     "einsum: operand 0 is [2, 3], '...ijk->i' names 3 axes");
  expect<ShapeError>([&] { einsum("ii->i", {x}); }, "einsum: label 'i' is 2 and 3 in operand 0");
  expect<ShapeError>([&] { einsum("ij,jk->ik", {x, x}); },
                     "einsum: label 'j' is 3 in operand 0 and 2 in operand 1");
  expect<ShapeError>([&] { einsum("...i,...i->...", {x, f32({4, 3})}); },
                     "einsum: axis 0 from the end of the ellipsis is 2 in operand 0 and 4 in "
                     "operand 1");
}

TEST(ErrorsProduct, MixedDevices) {
  if (test_device().is_cpu()) GTEST_SKIP() << "one device only";
  const ExecutionContext scope({.mixed_devices = MixedDevices::error});
  const Tensor here = f32({2, 2}), there = ones({2, 2});
  EXPECT_THROW(matmul(here, there), DeviceError);
  EXPECT_THROW(einsum("ij,jk->ik", {here, there}), DeviceError);
  EXPECT_THROW(outer(here[0], there[0]), DeviceError);
}

}  // namespace
}  // namespace volta::errors
