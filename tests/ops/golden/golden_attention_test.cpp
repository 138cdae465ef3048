// Attention against PyTorch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

// The size of an axis, counted from the last one; 1 if x is empty.
std::int64_t size(const Values& x, int from_last) {
  return std::max<std::int64_t>(x.shape[x.shape.rank() - from_last], 1);
}
// The largest length of a vector along the last axis.
double longest_row(const Values& x) {
  const auto columns = static_cast<std::size_t>(size(x, 1));
  double longest = 0;
  for (std::size_t row = 0; row + columns <= x.elements.size(); row += columns) {
    double sum = 0;
    for (std::size_t i = row; i < row + columns; ++i) sum += x.elements[i] * x.elements[i];
    longest = std::max(longest, std::sqrt(sum));
  }
  return longest;
}

// The gradient of a score is a weight times the difference of two products with a row of the
// result's gradient: that of a row of the values, and that of a row of the result, which is a mean
// of such rows. If one key has all the weight, they are equal. A mask that is broadcast gets the
// sum over its copies.
double terms(const std::vector<Values>& in, const Values& g, std::size_t i) {
  if (i != 3) return 0;
  const auto scores = static_cast<double>(g.shape.numel() / size(g, 1) * size(in[1], 2));
  return 2 * longest_row(g) * longest_row(in[2]) * scores /
         static_cast<double>(std::max<std::int64_t>(in[3].shape.numel(), 1));
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"attention", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         AttentionOptions options;
         if (in.size() > 3) options.mask = in[3];
         options.causal = a["causal"].integer() != 0;
         if (a.has("scale")) options.scale = a.value("scale");
         return scaled_dot_product_attention(in[0], in[1], in[2], options);
       },
       terms},
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
