// Products against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

// The equations are in the order of tests/golden/product.py.
constexpr const char* kEquations[] = {"ij,jk->ik", "ij,kj->ki", "bhqd,bhkd->bhqk", "ba,cb",
                                      "ii",        "iji->ji",   "...ij,jk->...ik", "ij,jk,k->i",
                                      "i,j->ji",   "ijk->j"};

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"matmul", Precision::close,
       [](const Inputs& in, const Attributes&) { return matmul(in[0], in[1]); }},
      {"dot", Precision::close,
       [](const Inputs& in, const Attributes&) { return dot(in[0], in[1]); }},
      {"outer", Precision::exact,
       [](const Inputs& in, const Attributes&) { return outer(in[0], in[1]); }},
      {"bmm", Precision::close,
       [](const Inputs& in, const Attributes&) { return bmm(in[0], in[1]); }},
      {"einsum", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return einsum(kEquations[a["equation"].integer()], in);
       }},
  };
  return all;
}

const Registration registration({"product", operations});

class GoldenProduct : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenProduct, AsPyTorch) { check("product", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenProduct, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryProductIsThere) { expect_complete("product", operations()); }

}  // namespace
}  // namespace volta::golden
