// Convolutions against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

Extent2 extent(const Attributes& a, const std::string& name) {
  return {a[name + "_h"].integer(), a[name + "_w"].integer()};
}
Tensor bias_of(const Inputs& in) { return in.size() > 2 ? in[2] : Tensor(); }

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"conv2d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return conv2d(in[0], in[1], bias_of(in),
                       {.stride = extent(a, "stride"),
                        .padding = extent(a, "padding"),
                        .dilation = extent(a, "dilation"),
                        .groups = a["groups"].integer()});
       }},
      {"conv_transpose2d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return conv_transpose2d(in[0], in[1], bias_of(in),
                                 {.stride = extent(a, "stride"),
                                  .padding = extent(a, "padding"),
                                  .output_padding = extent(a, "more"),
                                  .groups = a["groups"].integer(),
                                  .dilation = extent(a, "dilation")});
       }},
      {"conv1d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return conv1d(in[0], in[1], bias_of(in),
                       {.stride = a["stride"].integer(),
                        .padding = a["padding"].integer(),
                        .dilation = a["dilation"].integer(),
                        .groups = a["groups"].integer()});
       }},
      {"conv_transpose1d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return conv_transpose1d(in[0], in[1], bias_of(in),
                                 {.stride = a["stride"].integer(),
                                  .padding = a["padding"].integer(),
                                  .output_padding = a["more"].integer(),
                                  .groups = a["groups"].integer(),
                                  .dilation = a["dilation"].integer()});
       }},
  };
  return all;
}

const Registration registration({"convolution", operations});

class GoldenConvolution : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenConvolution, AsPyTorch) { check("convolution", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenConvolution, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryConvolutionIsThere) { expect_complete("convolution", operations()); }

}  // namespace
}  // namespace volta::golden
