// Mistakes in calls of losses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using errors::expect;

Tensor of(DType dtype, const Shape& shape) { return ones(shape, {.dtype = dtype}); }
Tensor f32(const Shape& shape) { return of(DType::f32, shape); }
Tensor wanting(const Shape& shape) { return f32(shape).clone().set_requires_grad(); }
const std::string kBatchmean = ": batchmean is a reduction of kl_div and gaussian_kl";

template <class Loss>
void expect_pair(const std::string& op, Loss loss, const std::string& first = "input",
                 const std::string& second = "target") {
  const Tensor none, x = f32({2, 3});
  expect<ArgumentError>([&] { loss(none, x); }, op + ": the input is not a tensor");
  expect<ArgumentError>([&] { loss(x, none); }, op + ": the " + second + " is not a tensor");
  expect<ShapeError>([&] { loss(x, f32({3})); },
                     op + ": " + first + " [2, 3] and " + second + " [3] differ in shape");
  expect<ShapeError>([&] { loss(f32({}), x); },
                     op + ": " + first + " [] and " + second + " [2, 3] differ in shape");
  expect<DTypeError>([&] { loss(of(DType::i64, {2, 3}), x); },
                     op + ": expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { loss(of(DType::boolean, {2, 3}), x); },
                     op + ": expected a floating-point tensor, got bool");
}

TEST(ErrorsLosses, InputsAndTargets) {
  using T = const Tensor&;
  expect_pair("mse_loss", [](T x, T y) { return mse_loss(x, y); });
  expect_pair("l1_loss", [](T x, T y) { return l1_loss(x, y); });
  expect_pair("smooth_l1_loss", [](T x, T y) { return smooth_l1_loss(x, y); });
  expect_pair("huber_loss", [](T x, T y) { return huber_loss(x, y); });
  expect_pair("binary_cross_entropy", [](T x, T y) { return binary_cross_entropy(x, y); });
  expect_pair("binary_cross_entropy_with_logits",
              [](T x, T y) { return binary_cross_entropy_with_logits(x, y); });
  expect_pair("kl_div", [](T x, T y) { return kl_div(x, y); });
  expect_pair("gaussian_kl", [](T x, T y) { return gaussian_kl(x, y); }, "mu", "logvar");
}

TEST(ErrorsLosses, Reductions) {
  const Tensor x = f32({2, 3}), labels = of(DType::i64, {2});
  const Reduction wrong = Reduction::batchmean;
  expect<ArgumentError>([&] { mse_loss(x, x, {.reduction = wrong}); }, "mse_loss" + kBatchmean);
  expect<ArgumentError>([&] { l1_loss(x, x, {.reduction = wrong}); }, "l1_loss" + kBatchmean);
  expect<ArgumentError>([&] { smooth_l1_loss(x, x, {.reduction = wrong}); },
                        "smooth_l1_loss" + kBatchmean);
  expect<ArgumentError>([&] { huber_loss(x, x, {.reduction = wrong}); }, "huber_loss" + kBatchmean);
  expect<ArgumentError>([&] { binary_cross_entropy(x, x, {.reduction = wrong}); },
                        "binary_cross_entropy" + kBatchmean);
  expect<ArgumentError>([&] { binary_cross_entropy_with_logits(x, x, {.reduction = wrong}); },
                        "binary_cross_entropy_with_logits" + kBatchmean);
  expect<ArgumentError>([&] { nll_loss(x, labels, {.reduction = wrong}); },
                        "nll_loss" + kBatchmean);
  expect<ArgumentError>([&] { cross_entropy(x, labels, {.reduction = wrong}); },
                        "cross_entropy" + kBatchmean);
}

TEST(ErrorsLosses, Numbers) {
  const Tensor x = f32({2, 3}), labels = of(DType::i64, {2});
  expect<ArgumentError>([&] { smooth_l1_loss(x, x, {.beta = -0.5}); },
                        "smooth_l1_loss: beta -0.5 is negative");
  expect<ArgumentError>([&] { huber_loss(x, x, {.delta = 0}); },
                        "huber_loss: delta 0 is not positive");
  for (const double smoothing : {-0.25, 1.5, std::nan("")}) {
    const std::string number = std::isnan(smoothing) ? "nan" : smoothing < 0 ? "-0.25" : "1.5";
    expect<ArgumentError>([&] { cross_entropy(x, labels, {.label_smoothing = smoothing}); },
                          "cross_entropy: label_smoothing " + number + " is not in [0, 1]");
  }
  expect<ArgumentError>([&] { cross_entropy(x, x, {.ignore_index = 1}); },
                        "cross_entropy: ignore_index is of labels, the target is probabilities");
}

TEST(ErrorsLosses, Weights) {
  const Tensor x = f32({2, 3}), labels = of(DType::i64, {2});
  const auto binary = [&](const Tensor& weight) { binary_cross_entropy(x, x, {.weight = weight}); };
  const auto logits = [&](const Tensor& weight) {
    binary_cross_entropy_with_logits(x, x, {.weight = weight});
  };
  const auto positive = [&](const Tensor& weight) {
    binary_cross_entropy_with_logits(x, x, {.pos_weight = weight});
  };
  expect<ShapeError>([&] { binary(f32({2})); },
                     "binary_cross_entropy: weight [2] does not expand to [2, 3]");
  expect<ShapeError>([&] { binary(f32({1, 2, 3})); },
                     "binary_cross_entropy: weight [1, 2, 3] does not expand to [2, 3]");
  expect<ShapeError>([&] { logits(f32({2})); },
                     "binary_cross_entropy_with_logits: weight [2] does not expand to [2, 3]");
  expect<ShapeError>([&] { positive(f32({2})); },
                     "binary_cross_entropy_with_logits: pos_weight [2] does not expand to [2, 3]");
  expect<DTypeError>([&] { binary(of(DType::f64, {3})); },
                     "binary_cross_entropy: input is f32, weight is f64");
  expect<DTypeError>([&] { positive(of(DType::i64, {3})); },
                     "binary_cross_entropy_with_logits: input is f32, pos_weight is i64");
  expect<ArgumentError>([&] { binary(wanting({3})); },
                        "binary_cross_entropy: weight requires a gradient, but none flows to it");
  expect<ArgumentError>([&] { positive(wanting({3})); },
                        "binary_cross_entropy_with_logits: pos_weight requires a gradient, but "
                        "none flows to it");
  expect<ShapeError>([&] { cross_entropy(x, labels, {.weight = f32({2})}); },
                     "cross_entropy: weight [2] is not [3]");
  expect<ShapeError>([&] { nll_loss(x, labels, {.weight = f32({3, 1})}); },
                     "nll_loss: weight [3, 1] is not [3]");
  expect<DTypeError>([&] { cross_entropy(x, labels, {.weight = of(DType::f64, {3})}); },
                     "cross_entropy: input is f32, weight is f64");
  expect<DTypeError>([&] { nll_loss(x, labels, {.weight = of(DType::bf16, {3})}); },
                     "nll_loss: input is f32, weight is bf16");
  expect<ArgumentError>([&] { cross_entropy(x, labels, {.weight = wanting({3})}); },
                        "cross_entropy: weight requires a gradient, but none flows to it");
  expect<ArgumentError>([&] { nll_loss(x, labels, {.weight = wanting({3})}); },
                        "nll_loss: weight requires a gradient, but none flows to it");
  const NoGrad none;  // then it may require one
  EXPECT_EQ(cross_entropy(x, labels, {.weight = wanting({3})}).shape(), Shape());
}

TEST(ErrorsLosses, Labels) {
  const Tensor none, x = f32({2, 3}), labels = of(DType::i64, {2});
  expect<ArgumentError>([&] { cross_entropy(none, labels); },
                        "cross_entropy: the input is not a tensor");
  expect<ArgumentError>([&] { cross_entropy(x, none); }, "cross_entropy: labels is not a tensor");
  expect<ArgumentError>([&] { nll_loss(none, labels); }, "nll_loss: the input is not a tensor");
  expect<ArgumentError>([&] { nll_loss(x, none); }, "nll_loss: labels is not a tensor");
  expect<ShapeError>([&] { cross_entropy(f32({}), labels); },
                     "cross_entropy: logits [] have no axis of classes");
  expect<ShapeError>([&] { nll_loss(f32({}), labels); },
                     "nll_loss: log-probabilities [] have no axis of classes");
  expect<ShapeError>([&] { cross_entropy(f32({2, 0}), labels); }, "cross_entropy: no classes");
  expect<ShapeError>([&] { nll_loss(f32({2, 0, 4}), labels); }, "nll_loss: no classes");
  expect<ShapeError>([&] { cross_entropy(x, of(DType::i64, {3})); },
                     "cross_entropy: logits [2, 3] need labels [2] or probabilities [2, 3], got "
                     "[3]");
  expect<ShapeError>([&] { cross_entropy(f32({2, 3, 4}), labels); },
                     "cross_entropy: logits [2, 3, 4] need labels [2, 4] or probabilities "
                     "[2, 3, 4], got [2]");
  expect<ShapeError>([&] { cross_entropy(f32({3}), labels); },
                     "cross_entropy: logits [3] need labels [] or probabilities [3], got [2]");
  expect<ShapeError>([&] { nll_loss(x, x); },
                     "nll_loss: log-probabilities [2, 3] need labels [2], got [2, 3]");
  expect<DTypeError>([&] { cross_entropy(of(DType::i64, {2, 3}), labels); },
                     "cross_entropy: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { nll_loss(of(DType::i64, {2, 3}), labels); },
                     "nll_loss: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { cross_entropy(x, f32({2})); },
                     "cross_entropy: expected integer labels, got f32");
  expect<DTypeError>([&] { cross_entropy(x, of(DType::boolean, {2})); },
                     "cross_entropy: expected integer labels, got bool");
  expect<DTypeError>([&] { cross_entropy(x, of(DType::i64, {2, 3})); },
                     "cross_entropy: expected floating-point probabilities, got i64");
  expect<DTypeError>([&] { nll_loss(x, f32({2})); }, "nll_loss: expected integer labels, got f32");
}

// Reported by the next read, with the source location of the call; an ignored label needs no range.
TEST(ErrorsLosses, LabelsOutOfRange) {
  const TensorOptions here{.device = test_device()};
  const auto labels = [&](std::vector<std::int64_t> values) {
    return from_vector(values, {3}, {.device = test_device()});
  };
  const Tensor x = ones({3, 4}, here), weight = ones({4}, here);
  const auto expect_at = [](auto act, int line, const std::string& op, const std::string& what) {
    expect<IndexError>(
        act, op + " (" + __FILE__ + ":" + std::to_string(line) + "): index " + what + " [0, 4)");
  };
  expect_at([&] { nll_loss(x, labels({0, 4, 1})).item(); }, __LINE__, "nll_loss",
            "4 is out of range");
  expect_at([&] { nll_loss(x, labels({0, -1, 1}), {.weight = weight}).item(); }, __LINE__,
            "nll_loss", "-1 is out of range");
  expect_at([&] { cross_entropy(x, labels({0, -100, 1}), {.ignore_index = -1}).item(); }, __LINE__,
            "cross_entropy", "-100 is out of range");
  expect_at([&] { cross_entropy(x, labels({0, -1, 1})).item(); }, __LINE__, "cross_entropy",
            "-1 is out of range");
  expect_at([&] { nn::CrossEntropyLoss()(x, labels({0, 9, 1})).item(); }, __LINE__, "cross_entropy",
            "9 is out of range");
  EXPECT_NEAR(cross_entropy(x, labels({0, -1, 1}), {.ignore_index = -1}).item(), std::log(4), 1e-6);
}

}  // namespace
}  // namespace volta
