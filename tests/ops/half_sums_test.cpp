// Gradients of broadcast operands in halves are summed in f32 and rounded once.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Doubles = std::vector<double>;
using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

Tensor drawn(const Shape& shape, int seed, DType dtype) {
  const Tensor i = arange(shape.numel(), {.dtype = DType::f64});
  Tensor x = (i * (0.7 + 0.1 * seed) + i * i * 0.013).sin().reshape(shape).to(dtype);
  return x.eval();
}

double rms(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// The gradient of the first operand, in f64.
Tensor gradient(const Function& f, Tensor a, const Tensor& b, const Tensor& weights) {
  a = a.detach();
  a.set_requires_grad();
  return grad(f(a, b), a, {.grad_outputs = {weights}}).to(Device::cpu()).to(DType::f64);
}

// Expects the error of rounding the f64 gradient to a half, plus a little for f32 sums.
void expect_rounded_once(const char* name, const Shape& a, const Shape& b, const Function& f) {
  for (const DType half : {DType::f16, DType::bf16}) {
    const Tensor left = drawn(a, 1, half), right = drawn(b, 2, half);
    const Tensor wide_left = left.to(DType::f64), wide_right = right.to(DType::f64);
    const Shape result = f(wide_left, wide_right).shape();
    const Tensor weights = drawn(result, 3, half);
    const Tensor expected = gradient(f, wide_left, wide_right, weights.to(DType::f64)).eval();
    const Doubles exact = expected.to_vector<double>();
    const double least = rms(expected.to(half).to(DType::f64).to_vector<double>(), exact);
    const Tensor actual =
        gradient(f, left.to(test_device()), right.to(test_device()), weights.to(test_device()));
    EXPECT_LE(rms(actual.to_vector<double>(), exact), 1.05 * least) << name << name_of(half);
  }
}

TEST(HalfSums, OfAMatrixBesideManyAreRoundedOnce) {
  expect_rounded_once("left", {24, 20}, {40, 20, 24},
                      [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  expect_rounded_once("right", {40, 20, 24}, {24, 20},
                      [](const Tensor& a, const Tensor& b) { return matmul(b, a); });
}

TEST(HalfSums, OfOperandsOfPartOfABatchAreRoundedOnce) {
  if (!thorough()) GTEST_SKIP() << "kernels are expensive here";
  expect_rounded_once("left of part", {1, 3, 24, 20}, {20, 3, 20, 24},
                      [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  expect_rounded_once("right of part", {1, 3, 20, 24}, {20, 3, 24, 20},
                      [](const Tensor& a, const Tensor& b) { return matmul(b, a); });
  expect_rounded_once("einsum", {24, 20}, {40, 20, 24}, [](const Tensor& a, const Tensor& b) {
    return einsum("mk,bkn->bmn", {a, b});
  });
  expect_rounded_once("factor", {24}, {200, 24},
                      [](const Tensor& a, const Tensor& b) { return a * b; });
  expect_rounded_once("bias", {24}, {200, 24},
                      [](const Tensor& a, const Tensor& b) { return a + b; });
  expect_rounded_once("table", {6, 24}, {1}, [](const Tensor& a, const Tensor&) {
    return embedding(a, arange(200, {.dtype = DType::i64, .device = a.device()}) * 7 % 6);
  });
}

}  // namespace
}  // namespace volta
