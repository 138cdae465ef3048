// Numbers among operands: which numbers fit the tensor's integers, exact comparisons, the dtypes of
// operations with three operands and of activations, and in-place changes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

using Bools = std::vector<bool>;
using Integers = std::vector<std::int64_t>;

TensorOptions of(DType dtype) { return {.dtype = dtype, .device = test_device()}; }
Tensor bytes() { return tensor({0, 100, 255}, of(DType::u8)); }
Tensor words() { return tensor({-5, 0, 7}, of(DType::i32)); }
Tensor flags() { return tensor({1, 0, 1}, of(DType::boolean)); }
Tensor floats() { return tensor({1, 2, 4}, of(DType::f32)); }

TEST(NumberErrors, IntegersThatTheResultDoesNotHave) {
  const Tensor u = bytes(), i = words(), mask = flags();
  constexpr std::int64_t large = std::int64_t{1} << 40;
  expect<ArgumentError>([&] { u + 300; }, "add: 300 does not fit u8");
  expect<ArgumentError>([&] { 256 - u; }, "sub: 256 does not fit u8");
  expect<ArgumentError>([&] { u * -1; }, "mul: -1 does not fit u8");
  expect<ArgumentError>([&] { i + large; }, "add: 1099511627776 does not fit i32");
  expect<ArgumentError>([&] { tensor({1}, of(DType::i64)) + ~0ull; },
                        "add: 1.8446744073709552e+19 does not fit i64");
  expect<ArgumentError>([&] { u % 256; }, "mod: 256 does not fit u8");
  expect<ArgumentError>([&] { u.fmod(-3); }, "fmod: -3 does not fit u8");
  expect<ArgumentError>([&] { u.floor_div(-1); }, "floor_div: -1 does not fit u8");
  expect<ArgumentError>([&] { u.pow(300); }, "pow: 300 does not fit u8");
  expect<ArgumentError>([&] { u.maximum(300); }, "maximum: 300 does not fit u8");
  expect<ArgumentError>([&] { u.minimum(-1); }, "minimum: -1 does not fit u8");
  expect<ArgumentError>([&] { where(mask, u, 300); }, "where: 300 does not fit u8");
  expect<ArgumentError>([&] { where(mask, -1, u); }, "where: -1 does not fit u8");
  expect<ArgumentError>([&] { u.clamp(0, 300); }, "clamp: 300 does not fit u8");
  expect<ArgumentError>([&] { u.clamp(-1, std::nullopt); }, "clamp: -1 does not fit u8");
  expect<ArgumentError>([&] { u.clamp(std::nullopt, 256); }, "clamp: 256 does not fit u8");
  expect<ArgumentError>([&] { mulacc(u, 300, 1); }, "mulacc: 300 does not fit u8");
  expect<ArgumentError>([&] { u.addcmul(u, u, 300); }, "addcmul: 300 does not fit u8");
  Tensor target = bytes();
  expect<ArgumentError>([&] { target += 300; }, "add: 300 does not fit u8");
  expect<ArgumentError>([&] { target[0] += 300; }, "add: 300 does not fit u8");
  expect<ArgumentError>([&] { target.fill_(-1); }, "fill_: -1 does not fit u8");
  EXPECT_EQ(target.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 100, 255}));
  const ScalarFunction shifted({.name = "shifted", .parameters = "x, by", .formula = "x + by"});
  expect<ArgumentError>([&] { shifted(u, 300); }, "shifted: 300 does not fit u8");
}

TEST(Numbers, ThatFitKeepTheDtypeAndFractionsMakeFloats) {
  EXPECT_EQ((bytes() + 1).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 101, 0}));
  EXPECT_EQ((bytes() - 255).dtype(), DType::u8);
  EXPECT_EQ((bytes() * 0.5).dtype(), DType::f32);
  EXPECT_EQ(bytes().clamp(1, 200).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 100, 200}));
  EXPECT_EQ(where(flags(), bytes(), 7).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 7, 255}));
}

// PyTorch converts the number first: there u8 > -1 is false, and i32 < 2^40 may be.
TEST(Numbers, AreComparedAsTheyAre) {
  const Tensor u = bytes(), i = words();
  constexpr std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((u < 300).to_vector<bool>(), (Bools{true, true, true}));
  EXPECT_EQ((u > -1).to_vector<bool>(), (Bools{true, true, true}));
  EXPECT_EQ((-1 >= u).to_vector<bool>(), (Bools{false, false, false}));
  EXPECT_EQ(u.eq(356).to_vector<bool>(), (Bools{false, false, false}));  // 100 + 256
  EXPECT_EQ(u.ne(-1).to_vector<bool>(), (Bools{true, true, true}));      // 255 - 256
  EXPECT_EQ((i <= large).to_vector<bool>(), (Bools{true, true, true}));
  EXPECT_EQ((i > -large).to_vector<bool>(), (Bools{true, true, true}));
  EXPECT_EQ(u.logical_and(256).to_vector<bool>(), (Bools{false, true, true}));
  expect<ArgumentError>([&] { i > ~0ull; }, "gt: 1.8446744073709552e+19 does not fit i64");
}

TEST(NumberErrors, ResultsOfAHigherKindStayOutOfPlace) {
  Tensor mask = flags(), whole = words();
  const std::string number = ": the result is i64 and does not fit into bool in place";
  expect<DTypeError>([&] { mask += 1; }, "+=" + number);
  expect<DTypeError>([&] { mask *= 2; }, "*=" + number);
  expect<DTypeError>([&] { mask[0] += 1; }, "+=" + number);
  expect<DTypeError>([&] { mask += words(); },
                     "+=: the result is i32 and does not fit into bool in place");
  expect<DTypeError>([&] { mask /= 2; },
                     "/=: the result is f32 and does not fit into bool in place");
  mask += true;
  EXPECT_EQ(mask.to_vector<bool>(), (Bools{true, true, true}));
  mask *= flags();
  EXPECT_EQ(mask.to_vector<bool>(), (Bools{true, false, true}));
  whole += tensor({1, 2, 3}, of(DType::i64));  // the same kind of dtype; PyTorch narrows, too
  EXPECT_EQ(whole.to_vector<std::int64_t>(), (Integers{-4, 2, 10}));
}

TEST(Numbers, OfThreeOperandsDecideAsOthersDo) {
  const Tensor whole = words(), mask = flags(), x = floats();
  EXPECT_EQ(mulacc(whole, 2, 1).to_vector<std::int64_t>(), (Integers{-9, 1, 15}));
  EXPECT_EQ(mulacc(mask, 2, 1).to_vector<std::int64_t>(), (Integers{3, 1, 3}));
  EXPECT_EQ(mulacc(whole, 0.5, 1).dtype(), DType::f32);
  EXPECT_EQ(addcmul(whole, whole, 2, 3).to_vector<std::int64_t>(), (Integers{-35, 0, 49}));
  EXPECT_EQ(addcmul(mask, 2, 3).to_vector<std::int64_t>(), (Integers{7, 6, 7}));
  EXPECT_EQ(addcmul(whole, 0.5, 2, 0.5).to_vector<float>(), (std::vector<float>{-4.5, 0.5, 7.5}));
  EXPECT_EQ(addcdiv(x, 1, 2).to_vector<float>(), (std::vector<float>{1.5, 2.5, 4.5}));
  EXPECT_EQ(addcdiv(whole, x, 2).to_vector<float>(), (std::vector<float>{-4.5, 1, 9}));
  EXPECT_EQ(lerp(x, 0, 0.5).to_vector<float>(), (std::vector<float>{0.5, 1, 2}));
}

// ---- Scalars: 0 and -1 stand for the axis that they would have.

TEST(ScalarTensors, TakeTheAxisTheyWouldHave) {
  for (const std::int64_t axis : {0, -1}) {
    const Tensor x = scalar(3.0, of(DType::f32)).set_requires_grad();
    for (const Tensor& y :
         {x.sum(axis), x.mean(axis, true), x.prod(axis), x.max(axis), x.min(axis), x.norm(2, axis),
          x.logsumexp(axis), x.cumsum(axis), x.squeeze(axis), x.flip(axis), x.transpose(axis, 0),
          sort(x, axis).values, topk(x, 1, axis).values}) {
      EXPECT_EQ(y.shape(), Shape{});
      EXPECT_NEAR(y.item(), 3, 1e-6);
      EXPECT_NEAR(grad(y, x).item(), 1, 1e-6);
    }
    EXPECT_EQ(softmax(x, axis).item(), 1);
    EXPECT_EQ(grad(softmax(x, axis), x).item(), 0);
    EXPECT_EQ(log_softmax(x, axis).item(), 0);
    EXPECT_TRUE(std::isnan(x.var(axis).item()));
    EXPECT_EQ(x.any(axis).item(), 1);
    EXPECT_EQ(x.all(axis).item(), 1);
    for (const Tensor& y : {x.argmax(axis), x.argmin(axis), argsort(x, axis), sort(x, axis).indices,
                            topk(x, 1, axis).indices}) {
      EXPECT_EQ(y.shape(), Shape{});
      EXPECT_EQ(y.item(), 0);
    }
    EXPECT_EQ(x.unfold(axis, 1, 1).shape(), Shape{1});
    const Tensor first = zeros({1}, of(DType::i64));
    EXPECT_EQ(index_select(x, axis, first).shape(), Shape{});
    EXPECT_EQ(index_select(x, axis, first).item(), 3);
  }
}

TEST(ScalarTensorErrors, OtherAxesAreOutOfRange) {
  const Tensor x = scalar(3.0, of(DType::f32));
  const std::string outside = ": axis 1 is out of range for []";
  expect<ShapeError>([&] { softmax(x, 1); }, "softmax" + outside);
  expect<ShapeError>([&] { log_softmax(x, 1); }, "log_softmax" + outside);
  expect<ShapeError>([&] { x.cumsum(1); }, "cumsum" + outside);
  expect<ShapeError>([&] { x.argmax(1); }, "argmax" + outside);
  expect<ShapeError>([&] { argsort(x, 1); }, "argsort" + outside);
  expect<ShapeError>([&] { topk(x, 1, 1); }, "topk" + outside);
  expect<ShapeError>([&] { x.squeeze(1); }, "squeeze" + outside);
  expect<ShapeError>([&] { x.flip(1); }, "flip" + outside);
  expect<ShapeError>([&] { x.transpose(0, 1); }, "transpose" + outside);
  expect<ArgumentError>([&] { topk(x, 2); }, "topk: 2 of the elements of a scalar");
  expect<ShapeError>([&] { index_select(x, 0, zeros({2}, of(DType::i64))); },
                     "index_select: indices [2] of a scalar");
  // As in PyTorch, operations that take a part of an axis need one.
  expect<ShapeError>([&] { x.narrow(0, 0, 1); }, "narrow: axis 0 is out of range for []");
  expect<ShapeError>([&] { x.split(1); }, "split: axis 0 is out of range for []");
  expect<ShapeError>([&] { x.roll(1, 0); }, "roll: axis 0 is out of range for []");
}

// ---- Constants take no memory, and reductions of them no time.

TEST(Constants, ReductionsDoNotDependOnHowManyThereAre) {
  const Shape huge{std::int64_t{1} << 40};
  const auto all = [&](Scalar value, DType dtype) { return full(huge, value, of(dtype)); };
  EXPECT_EQ(all(0, DType::f32).sum().item(), 0);
  EXPECT_EQ(all(0.75, DType::f32).sum().item(), 0.75 * 0x1p40);
  EXPECT_EQ(all(3, DType::i32).sum().item<std::int64_t>(), std::int64_t{3} << 40);
  EXPECT_EQ(all(true, DType::boolean).sum().item<std::int64_t>(), std::int64_t{1} << 40);
  EXPECT_EQ(all(0.75, DType::f32).mean().item(), 0.75);
  EXPECT_EQ(all(0.75, DType::f32).max().item(), 0.75);
  EXPECT_EQ(all(-2, DType::i64).min(0).item(), -2);
  EXPECT_EQ(all(-1, DType::f32).prod().item(), 1);
  EXPECT_EQ(all(0.5, DType::f32).prod().item(), 0);
  EXPECT_EQ(all(7, DType::i32).argmax().item<std::int64_t>(), 0);
  EXPECT_EQ(full({3, 5}, -1.0, of(DType::f32)).prod(1).to_vector<float>(),
            (std::vector<float>{-1, -1, -1}));
  EXPECT_EQ(full({2, 0}, std::numeric_limits<float>::infinity(), of(DType::f32)).sum().item(), 0);
  const Tensor leaf = zeros(huge, {.device = test_device(), .requires_grad = true});
  EXPECT_EQ(leaf.sum().item(), 0);
}

TEST(Constants, ThatDoNotFitAreOutOfMemory) {
  const Tensor most = zeros({std::int64_t{1} << 62}, of(DType::u8));
  expect<OutOfMemory>([&] { most.to_vector<float>(); },
                      "to_vector: 4611686018427387904 elements do not fit into memory");
#if !defined(__SANITIZE_ADDRESS__)  // it ends the program at such a size
  const Tensor many = zeros({std::int64_t{1} << 44}, of(DType::f32));
  expect<OutOfMemory>([&] { many.to_vector<float>(); },
                      "to_vector: 17592186044416 elements do not fit into memory");
  expect<OutOfMemory>([&] { zeros({std::int64_t{1} << 44}).span<float>(); },
                      "the values of [17592186044416] f32 do not fit into the host's memory");
#endif
}

}  // namespace
}  // namespace volta::errors
