// Integer results as in PyTorch 2.15: einsum's sums, and sequences of whole numbers.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Integers = std::vector<std::int64_t>;
TensorOptions of(DType dtype) { return {.dtype = dtype, .device = test_device()}; }

TEST(IntegerResults, SumsOfEinsumAreAsOtherSums) {
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    const Tensor x = arange(12, of(dtype)).reshape({3, 4});
    const Tensor rows = einsum("ij->i", {x});
    EXPECT_EQ(rows.dtype(), DType::i64);
    EXPECT_EQ(rows.to_vector<std::int64_t>(), (Integers{6, 22, 38}));
    EXPECT_EQ(einsum("ij->", {x}).item(), 66);
    EXPECT_EQ(einsum("ii", {x.narrow(1, 0, 3)}).dtype(), DType::i64);
    // Operations that only move or multiply keep the dtype.
    EXPECT_EQ(einsum("ij->ji", {x}).dtype(), dtype);
    EXPECT_EQ(einsum("ij,kj->ik", {x, x}).dtype(), dtype);
    EXPECT_EQ(einsum("ij,ij->", {x, x}).dtype(), dtype);
    EXPECT_EQ(einsum("ij,ij->i", {x, x}).dtype(), dtype);
    // One operand is summed first.
    const Tensor outer = einsum("ij,k->ik", {x, x.reshape({12})});
    EXPECT_EQ(outer.dtype(), DType::i64);
    EXPECT_EQ(outer[0].to_vector<std::int64_t>(),
              (Integers{0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 66}));
    EXPECT_EQ(einsum("ijm,jk->ik", {x.reshape({3, 2, 2}), x.reshape({2, 6})}).dtype(), DType::i64);
  }
  // The sum exceeds the range of a byte.
  const Tensor bytes = full({2, 4}, 255, of(DType::u8));
  EXPECT_EQ(einsum("ij->i", {bytes}).to_vector<std::int64_t>(), (Integers{1020, 1020}));
}

TEST(IntegerResults, OfArangeGoByWholeSteps) {
  const auto sequence = [](double start, double stop, double step, DType dtype) {
    const Tensor x = arange(start, stop, step, of(dtype));
    EXPECT_EQ(x.dtype(), dtype);
    return x.to_vector<std::int64_t>();
  };
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(sequence(0, 5, 1, dtype), (Integers{0, 1, 2, 3, 4}));
    EXPECT_EQ(sequence(0.5, 5, 1, dtype), (Integers{0, 1, 2, 3, 4}));
    EXPECT_EQ(sequence(0, 5, 1.5, dtype), (Integers{0, 1, 2, 3}));
    EXPECT_EQ(sequence(0, 5, 0.5, dtype), Integers(10, 0));
    EXPECT_EQ(sequence(-0.9, 3, 0.7, dtype), Integers(6, 0));
  }
  EXPECT_EQ(sequence(1, -3, -1.5, DType::i32), (Integers{1, 0, -1}));
}

TEST(IntegerResults, OfLinspaceLieBetweenWholeNumbers) {
  const auto sequence = [](double start, double end, std::int64_t count, DType dtype) {
    const Tensor x = linspace(start, end, count, of(dtype));
    EXPECT_EQ(x.dtype(), dtype);
    return x.to_vector<std::int64_t>();
  };
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(sequence(0, 10, 5, dtype), (Integers{0, 2, 5, 7, 10}));
    EXPECT_EQ(sequence(0, 10, 4, dtype), (Integers{0, 3, 6, 10}));
    EXPECT_EQ(sequence(0, 7, 4, dtype), (Integers{0, 2, 4, 7}));
    EXPECT_EQ(sequence(0.5, 9.5, 4, dtype), (Integers{0, 3, 6, 9}));
    EXPECT_EQ(sequence(0, 1, 3, dtype), (Integers{0, 0, 1}));
    EXPECT_EQ(sequence(10, 0, 4, dtype), (Integers{10, 6, 3, 0}));
    EXPECT_EQ(sequence(0, 255, 6, dtype), (Integers{0, 51, 102, 153, 204, 255}));
    EXPECT_EQ(sequence(3, 3, 1, dtype), (Integers{3}));
  }
  EXPECT_EQ(sequence(-5, 5, 4, DType::i32), (Integers{-5, -1, 1, 5}));
  EXPECT_EQ(sequence(-1.5, 1.5, 7, DType::i64), (Integers{-1, 0, 0, 0, 0, 0, 1}));
}

}  // namespace
}  // namespace volta
