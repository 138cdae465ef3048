// Losses: the number of kernels that they and their gradients take, gradients of gradients,
// modules, and combinations of dtypes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Loss = std::function<Tensor(const Tensor&)>;

TensorOptions here(DType dtype = DType::f32) { return {.dtype = dtype, .device = test_device()}; }

// Fixed numbers between low and high.
Tensor spread(const Shape& shape, double low, double high, DType dtype = DType::f32) {
  const Tensor waves = (arange(shape.numel(), here(DType::f64)) * 1.7).sin();
  return ((waves + 1) * ((high - low) / 2) + low).reshape(shape).to(dtype);
}

// Losses of [rows, classes] between 0 and 1, of every kind.
std::map<std::string, Loss> all_losses(std::int64_t rows, std::int64_t classes,
                                       DType dtype = DType::f32) {
  const Tensor y = spread({rows, classes}, 0.1, 0.8, dtype),
               weight = spread({classes}, 0.5, 2, dtype);
  const Tensor labels = arange(rows, here(DType::i64)) % classes, target = y.softmax(1);
  for (const Tensor& t : {y, weight, labels, target}) t.eval();
  return {
      {"mse", [=](const Tensor& x) { return mse_loss(x, y); }},
      {"l1", [=](const Tensor& x) { return l1_loss(x, y); }},
      {"smooth l1", [=](const Tensor& x) { return smooth_l1_loss(x, y, {.beta = 0.3}); }},
      {"huber", [=](const Tensor& x) { return huber_loss(x, y, {.delta = 0.3}); }},
      {"binary", [=](const Tensor& x) { return binary_cross_entropy(x, y, {.weight = weight}); }},
      {"logits",
       [=](const Tensor& x) {
         return binary_cross_entropy_with_logits(x, y, {.weight = weight, .pos_weight = weight});
       }},
      {"kl", [=](const Tensor& x) { return kl_div(x, y, {.reduction = Reduction::batchmean}); }},
      {"kl, logs", [=](const Tensor& x) { return kl_div(x, y, {.log_target = true}); }},
      {"gaussian, mean", [=](const Tensor& x) { return gaussian_kl(x, y); }},
      {"gaussian, variance", [=](const Tensor& x) { return gaussian_kl(y, x); }},
      {"nll", [=](const Tensor& x) { return nll_loss(x, labels); }},
      {"nll, all options",
       [=](const Tensor& x) { return nll_loss(x, labels, {.weight = weight, .ignore_index = 1}); }},
      {"cross-entropy", [=](const Tensor& x) { return cross_entropy(x, labels); }},
      {"cross-entropy, weights",
       [=](const Tensor& x) { return cross_entropy(x, labels, {.weight = weight}); }},
      {"cross-entropy, smoothing",
       [=](const Tensor& x) { return cross_entropy(x, labels, {.label_smoothing = 0.1}); }},
      {"cross-entropy, all options",
       [=](const Tensor& x) {
         return cross_entropy(x, labels,
                              {.weight = weight, .ignore_index = 1, .label_smoothing = 0.1});
       }},
      {"cross-entropy, probabilities",
       [=](const Tensor& x) {
         return cross_entropy(x, target, {.weight = weight, .label_smoothing = 0.1});
       }},
  };
}

// For elements the array is one row. For rows there is a loss per row, then their mean. A mean over
// labels first counts the labels that are not ignored, or sums their weights, because every row's
// gradient is divided by that.
TEST(Losses, FewKernelsWithTheirGradients) {
  const std::map<std::string, std::size_t> expected{
      {"nll", 3},
      {"nll, all options", 3},
      {"cross-entropy", 3},
      {"cross-entropy, weights", 3},
      {"cross-entropy, smoothing", 3},
      {"cross-entropy, all options", 3},
      {"cross-entropy, probabilities", 2},
  };
  for (const auto& [name, loss] : all_losses(64, 100)) {
    const Tensor x = spread({64, 100}, 0.2, 0.9).eval();
    Tensor leaf = x.detach();
    leaf.set_requires_grad();
    const Tensor value = loss(leaf);
    value.backward();
    const Tensor results[] = {value.detach(), leaf.grad()};
    const Explanation plan = explain(std::span<const Tensor>(results));
    const auto found = expected.find(name);
    EXPECT_EQ(plan.steps.size(), found == expected.end() ? 1u : found->second) << name << plan;
  }
}

TEST(Losses, GradientsOfAnyOrder) {
  for (const auto& [name, loss] : all_losses(4, 3, DType::f64)) {
    SCOPED_TRACE(name);
    const Tensor x = spread({4, 3}, 0.2, 0.9, DType::f64);
    const auto slope = [&loss = loss](const Tensor& given) {
      const EnableGrad history;
      const Tensor at = given.requires_grad() ? given * 1 : given.detach().set_requires_grad();
      return grad(loss(at).square(), at, {.create_graph = true});
    };
    const CheckReport first = check_gradients(loss, x), second = check_gradients(slope, x);
    EXPECT_TRUE(first.passed) << first.message;
    EXPECT_TRUE(second.passed) << second.message;
  }
}

// The first gradient of a target with probabilities, and of a variance, flows as well.
TEST(Losses, GradientsOfTargets) {
  const Tensor x = spread({4, 3}, 0.2, 0.9, DType::f64), y = spread({4, 3}, 0.1, 0.8, DType::f64);
  const Tensor weight = spread({3}, 0.5, 2, DType::f64);
  const auto check = [&](auto loss) {
    const CheckReport report =
        check_gradients([&](const std::vector<Tensor>& in) { return loss(in[0], in[1]); }, {x, y});
    EXPECT_TRUE(report.passed) << report.message;
  };
  using T = const Tensor&;
  check([](T a, T b) { return smooth_l1_loss(a, b, {.beta = 0.3}); });
  check([](T a, T b) { return huber_loss(a, b, {.delta = 0.3}); });
  check([&](T a, T b) { return binary_cross_entropy(a, b, {.weight = weight}); });
  check([&](T a, T b) { return binary_cross_entropy_with_logits(a, b, {.pos_weight = weight}); });
  check([](T a, T b) { return kl_div(a, b); });
  check([](T a, T b) { return kl_div(a, b, {.log_target = true}); });
  check([&](T a, T b) { return cross_entropy(a, b, {.weight = weight, .label_smoothing = 0.1}); });
}

TEST(Losses, ModulesAreTheFunctions) {
  const Tensor x = spread({4, 3}, 0.2, 0.9), y = spread({4, 3}, 0.1, 0.8);
  const Tensor weight = spread({3}, 0.5, 2), labels = arange(4, here(DType::i64)) % 3;
  const auto same = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  };
  const Reduction sum = Reduction::sum, none = Reduction::none;
  same(nn::MSELoss({.reduction = sum})(x, y), mse_loss(x, y, {.reduction = sum}));
  same(nn::L1Loss()(x, y), l1_loss(x, y));
  same(nn::SmoothL1Loss({.beta = 0.3})(x, y), smooth_l1_loss(x, y, {.beta = 0.3}));
  same(nn::HuberLoss({.delta = 0.3})(x, y), huber_loss(x, y, {.delta = 0.3}));
  same(nn::BCELoss({.weight = weight})(x, y), binary_cross_entropy(x, y, {.weight = weight}));
  same(nn::BCEWithLogitsLoss({.reduction = none, .weight = weight, .pos_weight = weight})(x, y),
       binary_cross_entropy_with_logits(
           x, y, {.reduction = none, .weight = weight, .pos_weight = weight}));
  same(nn::KLDivLoss({.reduction = Reduction::batchmean, .log_target = true})(x, y),
       kl_div(x, y, {.reduction = Reduction::batchmean, .log_target = true}));
  same(nn::NLLLoss({.weight = weight, .ignore_index = 1})(x, labels),
       nll_loss(x, labels, {.weight = weight, .ignore_index = 1}));
  same(nn::CrossEntropyLoss({.weight = weight, .label_smoothing = 0.1})(x, labels),
       cross_entropy(x, labels, {.weight = weight, .label_smoothing = 0.1}));
}

// A loss's weight is a buffer, as in PyTorch.
TEST(Losses, WeightsAreStateAndMoveWithTheModule) {
  nn::CrossEntropyLoss loss({.weight = ones({3})});
  nn::BCEWithLogitsLoss binary({.weight = ones({3}), .pos_weight = ones({3})});
  EXPECT_TRUE(loss.parameters().empty());
  ASSERT_EQ(loss.named_buffers().size(), 1u);
  EXPECT_EQ(loss.named_buffers()[0].first, "weight");
  ASSERT_EQ(binary.named_buffers().size(), 2u);
  EXPECT_EQ(binary.named_buffers()[1].first, "pos_weight");
  EXPECT_TRUE(nn::CrossEntropyLoss().named_buffers().empty());
  loss.to(DType::f64);
  const Tensor labels = zeros({2}, {.dtype = DType::i64});
  EXPECT_EQ(loss(ones({2, 3}, {.dtype = DType::f64}), labels).dtype(), DType::f64);
}

TEST(Losses, TargetsTakeTheInputsDtype) {
  const Tensor x = spread({4, 3}, 0.2, 0.9), whole = ones({4, 3}, here(DType::i64));
  const Tensor wide = spread({4, 3}, 0.1, 0.8, DType::f64);
  EXPECT_EQ(l1_loss(x, whole).item(), l1_loss(x, whole.to(DType::f32)).item());
  EXPECT_EQ(kl_div(x, wide).dtype(), DType::f32);
  EXPECT_EQ(cross_entropy(x, wide).dtype(), DType::f32);
  EXPECT_EQ(binary_cross_entropy(x.to(DType::bf16), x).dtype(), DType::bf16);
  const Tensor weight = ones({3}, here());
  const Tensor labels = zeros({4}, here(DType::i64));
  EXPECT_EQ(cross_entropy(x.to(DType::f16), labels, {.weight = weight}).dtype(), DType::f16);
}

// One plan serves every ignored label, every smoothing and every beta.
TEST(Losses, NumbersAreArguments) {
  const Tensor x = spread({4, 3}, 0.2, 0.9).eval(),
               labels = (arange(4, here(DType::i64)) % 3).eval();
  const auto run = [&](std::int64_t ignored, double smoothing) {
    return cross_entropy(x, labels, {.ignore_index = ignored, .label_smoothing = smoothing}).item();
  };
  run(0, 0.1);
  const auto built = counters().plans_built;
  EXPECT_NE(run(1, 0.1), run(0, 0.1));
  EXPECT_NE(run(1, 0.2), run(1, 0.1));
  EXPECT_EQ(counters().plans_built, built);
}

// Padded labels need no option: they have no loss and no gradient, and do not count.
TEST(Losses, MinusOneHundredIsIgnored) {
  const Tensor x = spread({4, 3}, 0.2, 0.9).eval();
  const Tensor labels = tensor({2, -100, 0, -100}, {4}, here(DType::i64));
  const Tensor kept = concat({x.narrow(0, 0, 1), x.narrow(0, 2, 1)}, 0);
  const Tensor kept_labels = tensor({2, 0}, {2}, here(DType::i64));
  Tensor leaf = x.detach();
  leaf.set_requires_grad();
  const Tensor loss = cross_entropy(leaf, labels);
  loss.backward();
  EXPECT_NEAR(loss.item(), cross_entropy(kept, kept_labels).item(), 1e-6);
  EXPECT_EQ(leaf.grad()[1].eq(0).all().item<bool>(), true);
  EXPECT_GT(abs(leaf.grad()[2]).max().item(), 0.1);
  EXPECT_NEAR(nn::CrossEntropyLoss()(x, labels).item(), loss.item(), 1e-6);
  EXPECT_NEAR(nll_loss(x, labels).item(), nll_loss(kept, kept_labels).item(), 1e-6);
  const Tensor nobody = full({4}, -100, here(DType::i64));
  EXPECT_TRUE(std::isnan(cross_entropy(x, nobody).item()));
  EXPECT_TRUE(std::isnan(nn::NLLLoss()(x, nobody).item()));
  EXPECT_EQ(cross_entropy(x, nobody, {.reduction = Reduction::sum}).item(), 0);
  // Probabilities have no ignored label, and the default is accepted.
  EXPECT_GT(cross_entropy(x, softmax(x, 1)).item(), 0);
}

}  // namespace
}  // namespace volta
