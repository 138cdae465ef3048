// Errors of operations: each mistake is refused at the call, with a message that names the
// operation and the caller's arguments.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Tensor f32(const Shape& shape) { return ones(shape, {.device = test_device()}); }
Tensor of(DType dtype, const Shape& shape) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}
const Tensor none;

// ---- Undefined tensors, once for each operation.

TEST(Errors, UndefinedOperandsOfUnaryOperations) {
  using Op = Tensor (*)(const Tensor&, SourceLocation);
  const std::pair<const char*, Op> ops[] = {
#define VOLTA_UNARY(name) {#name, name},
#define VOLTA_TEST(name) {#name, name},
#include "ops/elementwise_rows.def"
  };
  for (const auto& [name, op] : ops) {
    expect<ArgumentError>([&] { op(none, SourceLocation::here()); },
                          std::string(name) + ": the input is not a tensor");
  }
}

TEST(Errors, UndefinedOperandsOfBinaryOperations) {
  using Op = Tensor (*)(const Operand&, const Operand&);
  const std::pair<const char*, Op> ops[] = {
#define VOLTA_BINARY(name) {#name, name},
#include "ops/elementwise_rows.def"
  };
  const Tensor x = f32({2});
  for (const auto& [name, op] : ops) {
    expect<ArgumentError>([&] { op(none, x); },
                          std::string(name) + ": the left operand is not a tensor");
    expect<ArgumentError>([&] { op(x, none); },
                          std::string(name) + ": the right operand is not a tensor");
    expect<ArgumentError>([&] { op(none, 1); },
                          std::string(name) + ": the left operand is not a tensor");
    expect<ShapeError>([&] { op(f32({2, 3}), f32({4})); },
                       std::string(name) + ": shapes [2, 3] and [4] do not broadcast");
  }
}

TEST(Errors, UndefinedElsewhere) {
  const Tensor x = f32({2, 2}), flags = of(DType::boolean, {2, 2});
  expect<ArgumentError>([&] { where(none, x, x); }, "where: the condition is not a tensor");
  expect<ArgumentError>([&] { where(flags, none, x); }, "where: the first choice is not a tensor");
  expect<ArgumentError>([&] { where(flags, x, none); }, "where: the second choice is not a tensor");
  expect<ArgumentError>([&] { where(flags, none, 1); }, "where: the first choice is not a tensor");
  expect<ArgumentError>([&] { where(flags, 1, none); }, "where: the second choice is not a tensor");
  expect<ArgumentError>([&] { matmul(none, x); }, "matmul: the left operand is not a tensor");
  expect<ArgumentError>([&] { matmul(x, none); }, "matmul: the right operand is not a tensor");
  expect<ArgumentError>([&] { linear(none, x); }, "linear: the input is not a tensor");
  expect<ArgumentError>([&] { linear(x, none); }, "linear: the weight is not a tensor");
  expect<ArgumentError>([&] { embedding(none, x); }, "embedding: the weight is not a tensor");
  expect<ArgumentError>([&] { embedding(x, none); }, "embedding: ids is not a tensor");
  expect<ArgumentError>([&] { layer_norm(none, {2}); }, "layer_norm: the input is not a tensor");
  expect<ArgumentError>([&] { dropout(none, 0.5); }, "dropout: the input is not a tensor");
  expect<ArgumentError>([&] { softmax(none, 0); }, "softmax: the input is not a tensor");
  expect<ArgumentError>([&] { log_softmax(none, 0); }, "log_softmax: the input is not a tensor");
  expect<ArgumentError>([&] { none.sum(); }, "sum: the input is not a tensor");
  expect<ArgumentError>([&] { none.mean(); }, "mean: the input is not a tensor");
  expect<ArgumentError>([&] { none.max(); }, "max: the input is not a tensor");
  expect<ArgumentError>([&] { none.argmax(); }, "argmax: the input is not a tensor");
  expect<ArgumentError>([&] { none.reshape({1}); }, "reshape: the input is not a tensor");
  expect<ArgumentError>([&] { none.permute({0}); }, "permute: the input is not a tensor");
  expect<ArgumentError>([&] { none.t(); }, "t: the input is not a tensor");
  expect<ArgumentError>([&] { none.expand({1}); }, "expand: the input is not a tensor");
  expect<ArgumentError>([&] { none.narrow(0, 0, 1); }, "narrow: the input is not a tensor");
  expect<ArgumentError>([&] { pad(none, {}, {}); }, "pad: the input is not a tensor");
  expect<ArgumentError>([&] { zeros_like(none); }, "zeros_like: the input is not a tensor");
  expect<ArgumentError>([&] { ones_like(none); }, "ones_like: the input is not a tensor");
}

// ---- Elementwise.

TEST(Errors, DtypesOfElementwiseOperations) {
  const Tensor flags = of(DType::boolean, {2});
  expect<DTypeError>([&] { flags - flags; }, "sub: expected numbers, got bool");
  expect<DTypeError>([&] { neg(flags); }, "neg: expected numbers, got bool");
  expect<DTypeError>([&] { abs(flags); }, "abs: expected numbers, got bool");
  expect<DTypeError>([&] { sign(flags); }, "sign: expected numbers, got bool");
  expect<DTypeError>([&] { square(flags); }, "square: expected numbers, got bool");
  expect<DTypeError>([&] { relu(flags); }, "relu: expected numbers, got bool");
  using Op = Tensor (*)(const Operand&, const Operand&);
  const std::pair<const char*, Op> divisions[] = {
      {"mod", mod}, {"fmod", fmod}, {"floor_div", floor_div}, {"pow", pow}};
  for (const auto& [name, op] : divisions) {
    expect<DTypeError>([&] { op(flags, flags); },
                       std::string(name) + ": expected numbers, got bool");
  }
  expect<DTypeError>([&] { where(f32({2}), 1, 0); }, "where: expected a bool condition, got f32");
}

TEST(Errors, IntegersAndNumbers) {
  const Tensor whole = of(DType::i64, {2});
  expect<ArgumentError>([&] { whole % 0; }, "mod: i64 divided by zero");
  expect<ArgumentError>([&] { fmod(whole, 0); }, "fmod: i64 divided by zero");
  expect<ArgumentError>([&] { floor_div(of(DType::u8, {2}), 0); }, "floor_div: u8 divided by zero");
  expect<ArgumentError>([&] { pow(whole, -2); }, "pow: i64 to the power of -2 is no integer");
}

TEST(Errors, Activations) {
  const Tensor whole = of(DType::i32, {2});
  const auto refused = [&](const char* name, Tensor (*op)(const Tensor&)) {
    expect<ArgumentError>([&] { op(none); }, std::string(name) + ": the input is not a tensor");
    expect<DTypeError>([&] { op(whole); },
                       std::string(name) + ": expected a floating-point tensor, got i32");
  };
  refused("leaky_relu", [](const Tensor& x) { return leaky_relu(x); });
  refused("elu", [](const Tensor& x) { return elu(x); });
  refused("softplus", [](const Tensor& x) { return softplus(x); });
  refused("mish", [](const Tensor& x) { return mish(x); });
  refused("hardswish", [](const Tensor& x) { return hardswish(x); });
  refused("gelu", [](const Tensor& x) { return gelu(x); });
  refused("silu", [](const Tensor& x) { return silu(x); });
  refused("swish", [](const Tensor& x) { return swish(x); });
  refused("gelu", [](const Tensor& x) { return gelu(x, {.tanh = true}); });
}

TEST(Errors, Clamp) {
  const Tensor x = f32({2});
  expect<ArgumentError>([&] { clamp(none, 0, 1); }, "clamp: the input is not a tensor");
  expect<ArgumentError>([&] { clamp(x, none, 1); }, "clamp: the lower bound is not a tensor");
  expect<ArgumentError>([&] { clamp(x, 0, none); }, "clamp: the upper bound is not a tensor");
  expect<ArgumentError>([&] { clamp(x, {}, {}); }, "clamp: no bound is given");
  expect<ShapeError>([&] { clamp(x, f32({3}), 1); }, "clamp: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([&] { clamp(x, {}, f32({3})); }, "clamp: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([&] { clamp(x, f32({3}), {}); }, "clamp: shapes [2] and [3] do not broadcast");
}

TEST(Errors, OperationsOfThreeOperands) {
  const Tensor x = f32({2}), other = f32({3}), whole = of(DType::i64, {2}),
               flags = of(DType::boolean, {2});
  expect<ArgumentError>([&] { mulacc(none, x, x); }, "mulacc: the first factor is not a tensor");
  expect<ArgumentError>([&] { mulacc(x, none, x); }, "mulacc: the second factor is not a tensor");
  expect<ArgumentError>([&] { mulacc(x, x, none); }, "mulacc: the addend is not a tensor");
  expect<ArgumentError>([&] { mulacc(1, 2, 3); }, "mulacc: no argument is a tensor");
  expect<ShapeError>([&] { mulacc(x, x, other); }, "mulacc: shapes [2] and [3] do not broadcast");
  expect<DTypeError>([&] { mulacc(flags, flags, flags); }, "mulacc: expected numbers, got bool");
  expect<ArgumentError>([&] { lerp(none, x, 0.5); }, "lerp: the start is not a tensor");
  expect<ArgumentError>([&] { lerp(x, none, 0.5); }, "lerp: the end is not a tensor");
  expect<ArgumentError>([&] { lerp(x, x, none); }, "lerp: the weight is not a tensor");
  expect<ShapeError>([&] { lerp(x, other, 0.5); }, "lerp: shapes [2] and [3] do not broadcast");
  expect<DTypeError>([&] { lerp(whole, whole, 0.5); },
                     "lerp: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { lerp(x, whole, 0.5); },
                     "lerp: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { lerp(x, x, whole); }, "lerp: expected a floating-point tensor, got i64");
  expect<ArgumentError>([&] { addcmul(none, x, x); }, "addcmul: the input is not a tensor");
  expect<ArgumentError>([&] { addcmul(x, none, x); }, "addcmul: the first factor is not a tensor");
  expect<ArgumentError>([&] { addcmul(x, x, none); }, "addcmul: the second factor is not a tensor");
  expect<ShapeError>([&] { addcmul(x, x, other); }, "addcmul: shapes [2] and [3] do not broadcast");
  expect<DTypeError>([&] { addcmul(flags, flags, flags); }, "addcmul: expected numbers, got bool");
  expect<DTypeError>([&] { addcmul(whole, whole, whole, 0.5); },
                     "addcmul: value 0.5 is no integer, the operands are i64");
  expect<ArgumentError>([&] { addcdiv(none, x, x); }, "addcdiv: the input is not a tensor");
  expect<ArgumentError>([&] { addcdiv(x, none, x); }, "addcdiv: the dividend is not a tensor");
  expect<ArgumentError>([&] { addcdiv(x, x, none); }, "addcdiv: the divisor is not a tensor");
  expect<ShapeError>([&] { addcdiv(x, x, other); }, "addcdiv: shapes [2] and [3] do not broadcast");
  expect<DTypeError>([&] { addcdiv(whole, 1, 2); },
                     "addcdiv: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { addcdiv(x, whole, 2); },
                     "addcdiv: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { addcdiv(flags, 1, 2); },
                     "addcdiv: expected a floating-point tensor, got bool");
  expect<DTypeError>([&] { addcdiv(x, whole, whole); },
                     "addcdiv: expected a floating-point tensor, got i64");
}

TEST(Errors, ShapesOfElementwiseOperations) {
  const Tensor flags = of(DType::boolean, {2});
  expect<ShapeError>([&] { where(flags, f32({3}), f32({3})); },
                     "where: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([&] { where(flags, f32({2}), f32({3})); },
                     "where: shapes [2] and [3] do not broadcast");
  Tensor x = f32({2});
  expect<ShapeError>([&] { x += f32({3}); }, "add: shapes [2] and [3] do not broadcast");
  expect<ShapeError>([&] { x += f32({3, 2}); }, "+=: [3, 2] does not fit into [2] in place");
  expect<ShapeError>([&] { x -= f32({3, 2}); }, "-=: [3, 2] does not fit into [2] in place");
  expect<ShapeError>([&] { x *= f32({3, 2}); }, "*=: [3, 2] does not fit into [2] in place");
  expect<ShapeError>([&] { x /= f32({3, 2}); }, "/=: [3, 2] does not fit into [2] in place");
  expect<ShapeError>([&] { x.copy_(f32({3})); }, "copy_: [3] does not fit into [2] in place");
  expect<ShapeError>([&] { assign(x, f32({3})); }, "assign: [3] does not fit into [2] in place");
}

TEST(Errors, NothingInPlace) {
  Tensor nothing;
  const std::string message = ": the input is not a tensor";
  expect<ArgumentError>([&] { nothing -= 1; }, "-=" + message);
  expect<ArgumentError>([&] { nothing *= 1; }, "*=" + message);
  expect<ArgumentError>([&] { nothing /= 1; }, "/=" + message);
}

TEST(Errors, FloatsIntoIntegersInPlace) {
  Tensor x = of(DType::i32, {2});
  const std::string message = ": the result is f32 and does not fit into i32 in place";
  expect<DTypeError>([&] { x += 0.5; }, "+=" + message);
  expect<DTypeError>([&] { x -= 0.5; }, "-=" + message);
  expect<DTypeError>([&] { x *= 0.5; }, "*=" + message);
  expect<DTypeError>([&] { x /= 2; }, "/=" + message);
}

// ---- Movement.

TEST(Errors, Reshape) {
  const Tensor x = f32({4, 6});
  expect<ShapeError>([&] { x.reshape({5, 5}); }, "reshape: [4, 6] has 24 elements, [5, 5] has 25");
  expect<ShapeError>([&] { x.reshape({-1, 5}); }, "reshape: [4, 6] does not fit [-1, 5]");
  expect<ShapeError>([&] { x.reshape({-1, 0}); }, "reshape: [4, 6] does not fit [-1, 0]");
  expect<ShapeError>([&] { x.reshape({-1, -1}); }, "reshape: more than one size of [-1, -1] is -1");
  expect<ShapeError>([&] { x.reshape({-2, 12}); }, "reshape: size -2 is negative in [-2, 12]");
  expect<ShapeError>(
      [&] { x.reshape({kHuge, 4}); },
      "reshape: the number of elements of [9223372036854775807, 4] exceeds 2^63 - 1");
  expect<ShapeError>([&] { x.flatten(1, 0); }, "flatten: axis 1 comes after axis 0 in [4, 6]");
  expect<ShapeError>([&] { x.flatten(0, 2); }, "flatten: axis 2 is out of range for [4, 6]");
}

TEST(Errors, PermuteAndTranspose) {
  const Tensor x = f32({2, 3, 4});
  expect<ShapeError>([&] { x.permute({0, 1}); },
                     "permute: [0, 1] does not name each axis of [2, 3, 4] once");
  expect<ShapeError>([&] { x.permute({0, 1, 1}); },
                     "permute: [0, 1, 1] does not name each axis of [2, 3, 4] once");
  expect<ShapeError>([&] { x.permute({0, 1, -2}); },
                     "permute: [0, 1, -2] does not name each axis of [2, 3, 4] once");
  expect<ShapeError>([&] { x.permute({0, 1, 3}); },
                     "permute: axis 3 is out of range for [2, 3, 4]");
  expect<ShapeError>([&] { x.transpose(0, 3); }, "transpose: axis 3 is out of range for [2, 3, 4]");
  expect<ShapeError>([&] { x.transpose(-4, 0); },
                     "transpose: axis -4 is out of range for [2, 3, 4]");
  expect<ShapeError>([&] { x.t(); }, "t: expected at most 2 axes, got [2, 3, 4]");
}

TEST(Errors, ExpandSqueezeNarrowPad) {
  const Tensor x = f32({2, 3});
  expect<ShapeError>([&] { x.expand({4, 3}); }, "expand: [2, 3] does not expand to [4, 3]");
  expect<ShapeError>([&] { x.expand({3}); }, "expand: [2, 3] does not expand to [3]");
  expect<ShapeError>([&] { x.squeeze(2); }, "squeeze: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([&] { x.unsqueeze(3); }, "unsqueeze: axis 3 is out of range for [2, 3]");
  expect<ShapeError>([&] { x.unsqueeze(-4); }, "unsqueeze: axis -4 is out of range for [2, 3]");
  expect<ShapeError>([&] { f32({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0); },
                     "unsqueeze: 9 axes, at most 8");
  expect<ShapeError>([&] { x.narrow(2, 0, 1); }, "narrow: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([&] { x.narrow(1, 2, 2); }, "narrow: [2, 2 + 2) is outside axis 1 of [2, 3]");
  expect<ShapeError>([&] { x.narrow(1, -1, 2); },
                     "narrow: [-1, -1 + 2) is outside axis 1 of [2, 3]");
  expect<ShapeError>([&] { x.narrow(1, -4, 1); },
                     "narrow: [-4, -4 + 1) is outside axis 1 of [2, 3]");
  expect<ShapeError>([&] { x.narrow(-1, 0, -1); },
                     "narrow: [0, 0 + -1) is outside axis -1 of [2, 3]");
  expect<ShapeError>([&] { x.narrow(1, 1, kHuge); },
                     "narrow: [1, 1 + 9223372036854775807) is outside axis 1 of [2, 3]");
  const std::vector<std::int64_t> one{1}, two{1, 1}, negative{0, -4}, huge{0, kHuge};
  expect<ShapeError>([&] { pad(x, one, two); }, "pad: 1 and 2 amounts for [2, 3]");
  expect<ShapeError>([&] { pad(x, two, negative); },
                     "pad: 1 and -4 take more off axis 1 of [2, 3] than there is");
  expect<ShapeError>([&] { pad(x, two, huge); }, "pad: axis 1 of [2, 3] grows past 2^63 - 1");
}

// ---- Reductions.

TEST(Errors, Reductions) {
  const Tensor x = f32({2, 3}), whole = of(DType::i64, {2}), empty = f32({2, 0});
  expect<ShapeError>([&] { x.sum(2); }, "sum: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([&] { x.sum({0, -2}); }, "sum: an axis of [2, 3] appears twice in [0, -2]");
  expect<ShapeError>([&] { x.mean(-3); }, "mean: axis -3 is out of range for [2, 3]");
  expect<DTypeError>([&] { whole.mean(); }, "mean: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { whole.mean(0); }, "mean: expected a floating-point tensor, got i64");
  expect<ShapeError>([&] { x.max(5); }, "max: axis 5 is out of range for [2, 3]");
  expect<ShapeError>([&] { empty.max(1); }, "max: no elements along axis 1 of [2, 0]");
  expect<ShapeError>([&] { empty.max(); }, "max: no elements along axis 1 of [2, 0]");
  expect<ShapeError>([&] { empty.argmax(); }, "argmax: no elements along axis 1 of [2, 0]");
  expect<ShapeError>([&] { empty.argmax(-1); }, "argmax: no elements along axis 1 of [2, 0]");
  expect<ShapeError>([&] { x.argmax(2); }, "argmax: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([&] { softmax(x, 2); }, "softmax: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([&] { softmax(f32({}), 1); }, "softmax: axis 1 is out of range for []");
  expect<DTypeError>([&] { softmax(whole, 0); },
                     "softmax: expected a floating-point tensor, got i64");
  expect<ShapeError>([&] { log_softmax(x, -3); },
                     "log_softmax: axis -3 is out of range for [2, 3]");
  expect<DTypeError>([&] { log_softmax(whole, 0); },
                     "log_softmax: expected a floating-point tensor, got i64");
}

// ---- Products.

TEST(Errors, Products) {
  const Tensor x = f32({2, 3});
  expect<ShapeError>([&] { matmul(x, x); }, "matmul: inner dimensions differ: [2, 3] x [2, 3]");
  expect<ShapeError>([&] { matmul(x, f32({2})); }, "matmul: inner dimensions differ: [2, 3] x [2]");
  expect<ShapeError>([&] { matmul(f32({2}), f32({3})); },
                     "matmul: inner dimensions differ: [2] x [3]");
  expect<ShapeError>([&] { matmul(f32({}), x); },
                     "matmul: both operands need at least one axis: [] x [2, 3]");
  expect<ShapeError>([&] { matmul(f32({4, 2, 3}), f32({5, 3, 2})); },
                     "matmul: shapes [4] and [5] do not broadcast");
  expect<DTypeError>([&] { matmul(of(DType::boolean, {2, 3}), of(DType::boolean, {3, 2})); },
                     "matmul: expected numbers, got bool");
  expect<ShapeError>([&] { linear(x, f32({4, 2})); },
                     "linear: input [2, 3] does not fit weight [4, 2]");
  expect<ShapeError>([&] { linear(x, f32({2})); }, "linear: input [2, 3] does not fit weight [2]");
  expect<ShapeError>([&] { linear(x, f32({3}), f32({1})); },
                     "linear: input [2, 3] does not fit weight [3]");
  expect<ShapeError>([&] { linear(f32({}), f32({4, 2})); },
                     "linear: input [] does not fit weight [4, 2]");
  expect<ShapeError>([&] { linear(x, f32({4, 3}), f32({3})); },
                     "linear: bias [3] does not fit weight [4, 3]");
  expect<DTypeError>([&] { linear(of(DType::i64, {2, 3}), f32({4, 3})); },
                     "linear: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { linear(x, of(DType::i32, {4, 3})); },
                     "linear: input is f32, weight is i32");
  expect<DTypeError>([&] { linear(x, f32({4, 3}), of(DType::i32, {4})); },
                     "linear: input is f32, bias is i32");
}

// ---- Networks.

TEST(Errors, Embedding) {
  const Tensor weight = f32({5, 2});
  expect<ShapeError>([&] { embedding(f32({0, 2}), of(DType::i64, {2})); },
                     "embedding: weight [0, 2] has no rows");
  expect<ShapeError>([&] { embedding(f32({5}), of(DType::i64, {2})); },
                     "embedding: weight [5] needs 2 axes");
  expect<DTypeError>([&] { embedding(weight, f32({2})); },
                     "embedding: expected integer ids, got f32");
  expect<DTypeError>([&] { embedding(weight, of(DType::boolean, {2})); },
                     "embedding: expected integer ids, got bool");
  expect<ShapeError>([&] { embedding(weight, of(DType::i64, {1, 1, 1, 1, 1, 1, 1, 1})); },
                     "embedding: ids [1, 1, 1, 1, 1, 1, 1, 1] have too many axes");
}

TEST(Errors, LayerNorm) {
  const Tensor x = f32({2, 3});
  expect<ShapeError>([&] { layer_norm(x, {2}); },
                     "layer_norm: [2] are not the last sizes of [2, 3]");
  expect<ShapeError>([&] { layer_norm(x, {}); }, "layer_norm: [] are not the last sizes of [2, 3]");
  expect<ShapeError>([&] { layer_norm(x, {4, 2, 3}); },
                     "layer_norm: [4, 2, 3] are not the last sizes of [2, 3]");
  expect<ShapeError>([&] { layer_norm(x, {3}, f32({2})); }, "layer_norm: weight [2] is not [3]");
  expect<ShapeError>([&] { layer_norm(x, {3}, f32({3}), f32({1})); },
                     "layer_norm: bias [1] is not [3]");
  expect<DTypeError>([&] { layer_norm(x, {3}, of(DType::i32, {3})); },
                     "layer_norm: input is f32, weight is i32");
  expect<DTypeError>([&] { layer_norm(x, {3}, f32({3}), of(DType::i64, {3})); },
                     "layer_norm: input is f32, bias is i64");
  expect<DTypeError>([&] { layer_norm(of(DType::i64, {2, 3}), {3}); },
                     "layer_norm: expected a floating-point tensor, got i64");
  expect<ArgumentError>([&] { layer_norm(x, {3}, {}, f32({3})); },
                        "layer_norm: bias without weight");
  expect<ArgumentError>([&] { layer_norm(x, {3}, {}, {}, -1); }, "layer_norm: eps -1 is negative");
}

TEST(Errors, Dropout) {
  const Tensor x = f32({2});
  expect<ArgumentError>([&] { dropout(x, 1.5); }, "dropout: p = 1.5 is not in [0, 1]");
  expect<ArgumentError>([&] { dropout(x, -0.25); }, "dropout: p = -0.25 is not in [0, 1]");
  expect<ArgumentError>([&] { dropout(x, std::numeric_limits<double>::quiet_NaN()); },
                        "dropout: p = nan is not in [0, 1]");
  expect<DTypeError>([&] { dropout(of(DType::i64, {2}), 0.5); },
                     "dropout: expected a floating-point tensor, got i64");
}

}  // namespace
}  // namespace volta::errors
