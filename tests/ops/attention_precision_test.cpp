// The error of attention's gradients in f16 and bf16 compared with PyTorch's: the root mean square
// of their difference from f64, relative to that of the gradients. tests/golden/attention_rms.py
// prints the table below, from the flash attention that PyTorch 2.15 uses on the CPU by default.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Doubles = std::vector<double>;

struct Measured {
  DType dtype;
  bool causal;
  std::int64_t length;
  double error[3];  // for the gradients of q, k and v
};

constexpr Measured kPyTorch[] = {
    {DType::f16, false, 16, {3.117e-4, 2.976e-4, 2.857e-4}},
    {DType::f16, false, 64, {3.102e-4, 3.330e-4, 3.284e-4}},
    {DType::f16, false, 128, {3.066e-4, 3.917e-4, 3.798e-4}},
    {DType::f16, false, 512, {2.998e-4, 4.871e-4, 4.907e-4}},
    {DType::f16, true, 16, {3.565e-4, 3.547e-4, 2.600e-4}},
    {DType::f16, true, 64, {3.504e-4, 3.861e-4, 3.387e-4}},
    {DType::f16, true, 128, {3.415e-4, 4.490e-4, 4.371e-4}},
    {DType::f16, true, 512, {3.266e-4, 5.800e-4, 5.927e-4}},
    {DType::bf16, false, 16, {2.395e-3, 2.404e-3, 2.308e-3}},
    {DType::bf16, false, 64, {2.408e-3, 2.646e-3, 2.625e-3}},
    {DType::bf16, false, 128, {2.385e-3, 3.080e-3, 3.044e-3}},
    {DType::bf16, false, 512, {2.409e-3, 3.900e-3, 3.907e-3}},
    {DType::bf16, true, 16, {2.615e-3, 2.579e-3, 2.109e-3}},
    {DType::bf16, true, 64, {2.629e-3, 2.886e-3, 2.688e-3}},
    {DType::bf16, true, 128, {2.655e-3, 3.551e-3, 3.516e-3}},
    {DType::bf16, true, 512, {2.510e-3, 4.503e-3, 4.736e-3}},
};

constexpr std::int64_t kHeads = 4, kSize = 64;

// Sums of four uniform numbers, with mean 0 and variance 1, with the same bits as in the script.
Doubles drawn(std::uint64_t seed, std::size_t count) {
  Doubles numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    double total = 0;
    for (std::uint64_t k = 0; k < 4; ++k) {
      std::uint64_t x = i * 4 + k + seed * 0x9E3779B97F4A7C15u;
      x ^= x >> 30;
      x *= 0xBF58476D1CE4E5B9u;
      x ^= x >> 27;
      x *= 0x94D049BB133111EBu;
      x ^= x >> 31;
      total += static_cast<double>(x >> 32) * 0x1p-32;
    }
    numbers[i] = (total - 2) * 1.7320508075688772;
  }
  return numbers;
}

double rms(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// Takes q, k, v and the gradient of the result; returns the gradients of q, k and v.
std::vector<Doubles> gradients(std::vector<Tensor> inputs, bool causal) {
  for (int i = 0; i < 3; ++i) inputs[static_cast<std::size_t>(i)].set_requires_grad();
  const Tensor y =
      scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], {.causal = causal});
  std::vector<Doubles> all;
  for (const Tensor& gradient :
       grad({y}, {inputs[0], inputs[1], inputs[2]}, {.grad_outputs = {inputs[3]}}))
    all.push_back(gradient.to(Device::cpu()).to(DType::f64).to_vector<double>());
  return all;
}

TEST(AttentionPrecision, OfGradientsInHalvesIsNoWorseThanPyTorchs) {
  // The bound exceeds PyTorch's error by the effect of another order of additions. A library's own
  // kernels round at other points.
  const bool library = test_device().type() == DeviceType::cuda;
  const double factor = library ? 1.5 : 1.05;
  for (const Measured& row : kPyTorch) {
    std::vector<Tensor> halves, wide;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const Shape shape{1, kHeads, row.length, kSize};
      Tensor half = from_vector<double>(drawn(seed, static_cast<std::size_t>(shape.numel())))
                        .reshape(shape)
                        .to(row.dtype);
      half.eval();
      halves.push_back(half.to(test_device()).detach());
      wide.push_back(half.to(DType::f64));
      wide.back().eval();
      wide.back() = wide.back().detach();
    }
    const std::vector<Doubles> expected = gradients(wide, row.causal),
                               actual = gradients(halves, row.causal);
    for (std::size_t i = 0; i < 3; ++i) {
      const double own = rms(expected[i], Doubles(expected[i].size(), 0));
      EXPECT_LE(rms(actual[i], expected[i]) / own, row.error[i] * factor)
          << name_of(row.dtype) << (row.causal ? " causal " : " ") << row.length << ", d"
          << "qkv"[i];
    }
  }
}

}  // namespace
}  // namespace volta
