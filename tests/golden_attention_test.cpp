// Attention against PyTorch.
#include <gtest/gtest.h>

#include "golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"attention", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         AttentionOptions options;
         if (in.size() > 3) options.mask = in[3];
         options.causal = a["causal"].integer() != 0;
         if (a.has("scale")) options.scale = a.value("scale");
         return scaled_dot_product_attention(in[0], in[1], in[2], options);
       }},
  };
  return all;
}

const Registration registration({"attention", operations});

class GoldenAttention : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenAttention, AsPyTorch) { check("attention", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenAttention, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryAttentionIsThere) { expect_complete("attention", operations()); }

}  // namespace
}  // namespace volta::golden
