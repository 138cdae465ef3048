// Losses against PyTorch, and the gradients of the gradients of cross-entropy.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

Reduction reduction_of(const Attributes& a) {
  return static_cast<Reduction>(a["reduction"].integer());
}
bool flag(const Attributes& a, const std::string& name) {
  return a.has(name) && a[name].integer() != 0;
}
// Weights get no gradient and must not require one.
Tensor data(const Tensor& t) { return t.requires_grad() ? t.detach() : t; }

CrossEntropyOptions class_options(const Inputs& in, const Attributes& a, std::size_t weight) {
  CrossEntropyOptions options{.reduction = reduction_of(a)};
  if (flag(a, "weight")) options.weight = data(in.at(weight));
  if (a.has("ignore_index")) options.ignore_index = a["ignore_index"].integer();
  if (a.has("label_smoothing")) options.label_smoothing = a.value("label_smoothing");
  return options;
}

Tensor divergence(const Inputs& in, const Attributes& a) {
  return kl_div(in[0], flag(a, "data") ? data(in[1]) : in[1],
                {.reduction = reduction_of(a), .log_target = flag(a, "log_target")});
}
Tensor entropy(const Inputs& in, const Attributes& a) {
  return cross_entropy(in[0], in[1], class_options(in, a, 2));
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"l1_loss", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return l1_loss(in[0], in[1], {.reduction = reduction_of(a)});
       }},
      {"smooth_l1_loss", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return smooth_l1_loss(in[0], in[1],
                               {.reduction = reduction_of(a), .beta = a.value("beta")});
       }},
      {"huber_loss", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return huber_loss(in[0], in[1], {.reduction = reduction_of(a), .delta = a.value("delta")});
       }},
      {"gaussian_kl", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return gaussian_kl(in[0], in[1], {.reduction = reduction_of(a)});
       }},
      {"kl_div", Precision::close, divergence},
      {"kl_div_log", Precision::close, divergence},
      {"binary_cross_entropy", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return binary_cross_entropy(
             in[0], in[1],
             {.reduction = reduction_of(a), .weight = flag(a, "weight") ? data(in[2]) : Tensor()});
       }},
      {"binary_cross_entropy_with_logits", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return binary_cross_entropy_with_logits(
             in[0], in[1],
             {.reduction = reduction_of(a),
              .weight = flag(a, "weight") ? data(in[2]) : Tensor(),
              .pos_weight = flag(a, "pos_weight") ? data(in.back()) : Tensor()});
       }},
      {"nll_loss", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         const CrossEntropyOptions options = class_options(in, a, 2);
         return nll_loss(in[0], in[1],
                         {.reduction = options.reduction,
                          .weight = options.weight,
                          .ignore_index = options.ignore_index});
       }},
      {"cross_entropy", Precision::close, entropy},
      {"cross_entropy_probabilities", Precision::close, entropy},
      {"cross_entropy_gradient", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         // A new tensor for this gradient, whose own gradient continues to the input.
         const Tensor x = in[0] * 1;
         return grad(cross_entropy(x, data(in[2]), class_options(in, a, 3)), x,
                     {.grad_outputs = {in[1]}, .create_graph = true});
       }},
  };
  return all;
}

const Registration registration({"losses", operations});

class GoldenLosses : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenLosses, AsPyTorch) { check("losses", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenLosses, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryLossIsThere) { expect_complete("losses", operations()); }

}  // namespace
}  // namespace volta::golden
