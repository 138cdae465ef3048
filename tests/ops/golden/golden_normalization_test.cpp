// Normalisation of channels against PyTorch: results, batch norm's running statistics, and
// gradients of gradients.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

bool flag(const Attributes& a, const std::string& name) { return a[name].integer() != 0; }

// The inputs from `first` on; the attributes tell which of them are given.
struct Parameters {
  Tensor mean, variance, weight, bias;

  Parameters(const Inputs& in, const Attributes& a, std::size_t first) {
    const auto next = [&](const char* name) {
      return a.has(name) && flag(a, name) ? in.at(first++) : Tensor();
    };
    // Statistics get no gradient and must not require one.
    const auto data = [](const Tensor& t) {
      return t.defined() && t.requires_grad() ? t.detach() : t;
    };
    mean = data(next("running"));
    variance = data(next("running"));
    weight = next("weight");
    bias = next("bias");
  }
};

Tensor normalized(const Tensor& x, const Parameters& p, const Attributes& a) {
  return batch_norm(
      x, p.mean, p.variance, p.weight, p.bias,
      {.training = flag(a, "training"), .momentum = a.value("momentum"), .eps = a.value("eps")});
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"batch_norm", Precision::sums,
       [](const Inputs& in, const Attributes& a) { return normalized(in[0], {in, a, 1}, a); }},
      {"batch_norm_running", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         const Parameters p(in, a, 1);
         normalized(in[0], p, a);
         return concat({p.mean, p.variance}, 0);
       }},
      {"batch_norm_gradient", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         // A new tensor for this gradient, whose own gradient continues to the input.
         const Tensor x = in[0] * 1;
         return grad(normalized(x, {in, a, 2}, a), x,
                     {.grad_outputs = {in[1]}, .create_graph = true});
       }},
      {"group_norm", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         const Parameters p(in, a, 1);
         return group_norm(in[0], a["groups"].integer(), p.weight, p.bias, a.value("eps"));
       }},
      {"instance_norm", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         const Parameters p(in, a, 1);
         return instance_norm(in[0], p.weight, p.bias, a.value("eps"));
       }},
  };
  return all;
}

const Registration registration({"normalization", operations});

class GoldenNormalization : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenNormalization, AsPyTorch) { check("normalization", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenNormalization, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryNormalizationIsThere) { expect_complete("normalization", operations()); }

}  // namespace
}  // namespace volta::golden
