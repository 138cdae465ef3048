// The cost of one block of a network, forward and backward: kernels and library calls.
#include <gtest/gtest.h>

#include <cstdio>

#include "backend/cpu/library/matmul.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

Tensor parameter(const Shape& shape) {
  Tensor values = (randn(shape, {.device = test_device()}) * 0.1).detach().eval();
  values.set_requires_grad(true);
  return values;
}

// Whether convolutions are calls of the CPU's library, which depends on the build (VOLTA_ONEDNN).
// Otherwise they are products of extracted windows.
bool convolves() { return cpu::onednn_multiplies(DType::f32); }

Explanation cost(const char* block, const std::vector<Tensor>& results) {
  Explanation plan = explain(std::span<const Tensor>(results));
  std::printf("%s on %s: %d kernels, %d library calls\n", block, to_string(test_device()).c_str(),
              plan.kernels(), plan.library_calls());
  return plan;
}

// conv, norm, ReLU, conv, norm, sum with the input, ReLU. Six convolutions. Forward: the transposed
// input, and statistics and result of each norm. Backward: two sums and the gradient for each norm,
// and the two gradients of the input added up and transposed back.
TEST(Blocks, OfAResNet) {
  manual_seed(1);
  const Tensor x = parameter({8, 16, 16, 16}), w1 = parameter({16, 16, 3, 3}),
               w2 = parameter({16, 16, 3, 3}), scale1 = parameter({16}), shift1 = parameter({16}),
               scale2 = parameter({16}), shift2 = parameter({16});
  std::vector<Tensor> running;
  for (int i = 0; i < 4; ++i)
    running.push_back(ones({16}, {.device = test_device()}).clone().eval());
  const auto block = [&] {
    const BatchNormOptions train{.training = true};
    Tensor h = conv2d(x, w1, {}, {.padding = 1});
    h = relu(batch_norm(h, running[0], running[1], scale1, shift1, train));
    h = conv2d(h, w2, {}, {.padding = 1});
    return relu(batch_norm(h, running[2], running[3], scale2, shift2, train) + x);
  };
  block().sum().backward();
  std::vector<Tensor> results = running;
  for (const Tensor& leaf : {x, w1, w2, scale1, shift1, scale2, shift2})
    results.push_back(leaf.grad());
  const Explanation plan = cost("a block of a ResNet", results);
  if (!test_device().is_cpu()) GTEST_SKIP() << "counted on the CPU";
  EXPECT_EQ(plan.library_calls(), 6);
  EXPECT_EQ(plan.kernels(), convolves() ? 10 : 14);
}

// norm, attention, sum, norm, two layers with GELU between them, sum.
TEST(Blocks, OfATransformer) {
  manual_seed(1);
  constexpr std::int64_t kBatch = 2, kLength = 64, kWidth = 64, kHeads = 4;
  const Tensor x = parameter({kBatch, kLength, kWidth}), scale1 = parameter({kWidth}),
               shift1 = parameter({kWidth}), w_qkv = parameter({3 * kWidth, kWidth}),
               b_qkv = parameter({3 * kWidth}), w_out = parameter({kWidth, kWidth}),
               b_out = parameter({kWidth}), scale2 = parameter({kWidth}),
               shift2 = parameter({kWidth}), w_up = parameter({4 * kWidth, kWidth}),
               b_up = parameter({4 * kWidth}), w_down = parameter({kWidth, 4 * kWidth}),
               b_down = parameter({kWidth});
  const auto block = [&] {
    const Tensor qkv = linear(layer_norm(x, {kWidth}, scale1, shift1), w_qkv, b_qkv)
                           .reshape({kBatch, kLength, 3, kHeads, kWidth / kHeads})
                           .permute({2, 0, 3, 1, 4});
    const Tensor seen = scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.causal = true})
                            .permute({0, 2, 1, 3})
                            .reshape({kBatch, kLength, kWidth});
    const Tensor y = x + linear(seen, w_out, b_out);
    const Tensor up =
        gelu(linear(layer_norm(y, {kWidth}, scale2, shift2), w_up, b_up), {.tanh = true});
    return y + linear(up, w_down, b_down);
  };
  block().sum().backward();
  std::vector<Tensor> results;
  for (const Tensor& leaf : {x, scale1, shift1, w_qkv, b_qkv, w_out, b_out, scale2, shift2, w_up,
                             b_up, w_down, b_down}) {
    results.push_back(leaf.grad());
  }
  const Explanation plan = cost("a block of a transformer", results);
  if (!test_device().is_cpu()) GTEST_SKIP() << "counted on the CPU";
  // Forward: four layers, two products of attention. Backward: two for each layer except the last
  // forward product, and five for attention.
  EXPECT_EQ(plan.library_calls(), 17);
  EXPECT_EQ(plan.kernels(), 16);
}

}  // namespace
}  // namespace volta
