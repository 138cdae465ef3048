// The values that an evaluated forward pass keeps for its gradients: only those that a wanted
// gradient is computed from.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr std::int64_t kRows = 64, kColumns = 256;
constexpr std::uint64_t kBytes = kRows * kColumns * 4;

TensorOptions here() { return {.device = test_device()}; }

Tensor numbers(const Shape& shape) { return rand(shape, here()).eval(); }
Tensor leaf(const Shape& shape) { return numbers(shape).set_requires_grad(); }

// The pool bytes that an evaluated forward pass holds besides its inputs, without the arena.
std::uint64_t kept_by(const std::function<Tensor()>& forward) {
  synchronize(test_device());
  forward().eval();  // builds the plan and the arena
  synchronize(test_device());
  const std::uint64_t before = memory_stats(test_device()).in_use;
  const Tensor result = forward().eval();
  synchronize(test_device());
  return memory_stats(test_device()).in_use - before;
}

// `h` is created inside, so that only a tape record can hold it.
TEST(SavedValues, ArithmeticWithNumbersKeepsNoOperand) {
  const Tensor x = leaf({kRows, kColumns});
  const auto tanh_then = [&](const std::function<Tensor(const Tensor&)>& last) {
    return kept_by([&] { return last(x.tanh()); });
  };
  // The result of tanh is kept for its own gradient, and the last result is held.
  EXPECT_EQ(tanh_then([](const Tensor& h) { return h * 0.5; }), 2 * kBytes);
  const auto negated_then = [&](const std::function<Tensor(const Tensor&)>& last) {
    return kept_by([&] { return last(x - 1); });
  };
  EXPECT_EQ(negated_then([](const Tensor& h) { return h * 0.5; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return 0.5 * h; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return h + 1; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return 1 - h; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return h / 3; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return -h; }), kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return h % 2; }), kBytes);
  // The operand is needed, the result is not.
  EXPECT_EQ(negated_then([](const Tensor& h) { return pow(h, 3) + 1; }), 2 * kBytes);
  EXPECT_EQ(negated_then([](const Tensor& h) { return 3 / h + 1; }), 2 * kBytes);
}

TEST(SavedValues, AFactorIsKeptForTheOtherOne) {
  const Tensor x = leaf({kRows, kColumns}), constant = numbers({kRows, kColumns});
  // One of the factors created inside requires a gradient, the other does not.
  EXPECT_EQ(kept_by([&] { return (x - 1) * (constant + 1); }), 2 * kBytes);
  EXPECT_EQ(kept_by([&] { return (constant + 1) * (x - 1); }), 2 * kBytes);
  EXPECT_EQ(kept_by([&] { return (x - 1) * (x + 1); }), 3 * kBytes);
  EXPECT_EQ(kept_by([&] { return (x - 1) / (constant + 1); }), 2 * kBytes);
  EXPECT_EQ(kept_by([&] { return (constant + 1) / (x - 1); }), 3 * kBytes);
  EXPECT_EQ(kept_by([&] { return mulacc(x - 1, constant + 1, x * 2); }), 2 * kBytes);
}

TEST(SavedValues, FrozenLayersKeepNoInput) {
  const Tensor x = leaf({kRows, kColumns}), w = numbers({kColumns, kColumns}),
               bias = numbers({kColumns});
  EXPECT_EQ(kept_by([&] { return linear(x - 1, w, bias); }), kBytes);
  EXPECT_EQ(kept_by([&] { return (x - 1).matmul(w); }), kBytes);
  // A trained bias with frozen weights does not keep more.
  const Tensor trained = leaf({kColumns});
  EXPECT_EQ(kept_by([&] { return linear(x - 1, w, trained); }), kBytes);
  // A layer whose input needs no gradient keeps the input but no copy of the weights.
  const Tensor data = numbers({kRows, kColumns}), weights = leaf({kColumns, kColumns});
  EXPECT_EQ(kept_by([&] { return linear(data - 1, weights * 2); }), 2 * kBytes);
  // If both require gradients, both are kept.
  EXPECT_EQ(kept_by([&] { return linear(x - 1, weights * 2); }),
            2 * kBytes + kColumns * kColumns * 4);
}

TEST(SavedValues, FrozenConvolutionsKeepNoInput) {
  const Tensor x = leaf({2, 4, 32, 32}), w = numbers({4, 4, 3, 3});
  constexpr std::uint64_t kImages = 2 * 4 * 32 * 32 * 4;
  EXPECT_EQ(kept_by([&] { return conv2d(x - 1, w, {}, {.padding = 1}); }), kImages);
  const Tensor trained = leaf({4, 4, 3, 3});
  EXPECT_EQ(kept_by([&] { return conv2d(x - 1, trained, {}, {.padding = 1}); }), 2 * kImages);
}

// Each gradient of a layer norm computed alone equals the one computed with all three.
TEST(SavedValues, PartsOfALayerNormMayBeFrozen) {
  const Tensor x = numbers({4, 8}), weight = numbers({8}), bias = numbers({8}), c = numbers({4, 8});
  const auto gradient_of = [&](std::initializer_list<int> wanted, int which) {
    Tensor operands[3] = {x.clone(), weight.clone(), bias.clone()};
    for (const int i : wanted) operands[i].set_requires_grad();
    const Tensor loss = (layer_norm(operands[0], {8}, operands[1], operands[2]) * c).sum();
    return grad(loss, operands[which]).to_vector<float>();
  };
  for (int which = 0; which < 3; ++which)
    EXPECT_EQ(gradient_of({which}, which), gradient_of({0, 1, 2}, which)) << which;
}

// Gradients of gradients read the values that the first gradients were computed from.
TEST(SavedValues, SecondOrderGradientsOfFrozenFactors) {
  const Tensor x = tensor({0.5, -1, 2}, {3}, here()).set_requires_grad();
  const Tensor c = tensor({2, 3, 4}, {3}, here());
  const Tensor y = ((x * c).square() / 3 * 0.5).sum();
  const Tensor first = grad(y, x, {.create_graph = true});  // c^2 x / 3
  const std::vector<float> slopes = grad(first.sum(), x).to_vector<float>();
  EXPECT_NEAR(slopes[0], 4 / 3.0, 1e-5);
  EXPECT_NEAR(slopes[1], 9 / 3.0, 1e-5);
  EXPECT_NEAR(slopes[2], 16 / 3.0, 1e-5);
}

// A tensor that is frozen between a checkpointed section and its backward pass still gets the
// gradient that the section was recorded for.
TEST(SavedValues, ACheckpointedSectionMayBeFrozenBeforeItsBackwardPass) {
  const Tensor x = tensor({1, 2, 3}, {3}, here()).set_requires_grad();
  Tensor w = tensor({4, 5, 6}, {3}, here()).set_requires_grad();
  const Tensor y = checkpoint([&](const Tensor& h) { return h * w; }, x);
  w.set_requires_grad(false);
  EXPECT_EQ(grad(y.sum(), x).to_vector<float>(), (std::vector<float>{4, 5, 6}));
}

}  // namespace
}  // namespace volta
