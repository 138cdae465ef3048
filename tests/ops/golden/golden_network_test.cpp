// Operations of networks, and conversions, against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

LossOptions loss_options(const Attributes& a) {
  return {.reduction = static_cast<Reduction>(a["reduction"].integer())};
}
Operation conversion(const std::string& name, DType dtype) {
  return {"to_" + name, Precision::exact,
          [dtype](const Inputs& in, const Attributes&) { return in[0].to(dtype); }};
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"linear", Precision::close,
       [](const Inputs& in, const Attributes&) {
         return linear(in[0], in[1], in.size() > 2 ? in[2] : Tensor());
       }},
      {"embedding", Precision::exact,
       [](const Inputs& in, const Attributes&) { return embedding(in[0], in[1]); }},
      {"layer_norm", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         std::vector<std::int64_t> sizes(in[0].shape().end() - a["axes"].integer(),
                                         in[0].shape().end());
         return layer_norm(in[0], Shape(sizes), in.size() > 1 ? in[1] : Tensor(),
                           in.size() > 2 ? in[2] : Tensor(), a.value("eps"));
       }},
      {"mse_loss", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return mse_loss(in[0], in[1], loss_options(a));
       }},
      {"cross_entropy", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return cross_entropy(in[0], in[1], {.reduction = loss_options(a).reduction});
       }},
      conversion("float16", DType::f16),
      conversion("bfloat16", DType::bf16),
      conversion("float32", DType::f32),
      conversion("float64", DType::f64),
      conversion("int32", DType::i32),
      conversion("int64", DType::i64),
      conversion("uint8", DType::u8),
      conversion("bool", DType::boolean),
  };
  return all;
}

const Registration registration({"network", operations});

class GoldenNetwork : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenNetwork, AsPyTorch) { check("network", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenNetwork, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryNetworkOperationIsThere) { expect_complete("network", operations()); }

}  // namespace
}  // namespace volta::golden
