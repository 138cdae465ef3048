// Pooling and resizing against PyTorch, and the gradients of their gradients.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

Extent2 extent(const Attributes& a, const std::string& name) {
  return {a[name + "_h"].integer(), a[name + "_w"].integer()};
}
bool flag(const Attributes& a, const std::string& name) { return a[name].integer() != 0; }

Tensor largest(const Inputs& in, const Attributes& a) {
  return max_pool2d(in[0], extent(a, "kernel"),
                    {.stride = extent(a, "stride"),
                     .padding = extent(a, "padding"),
                     .dilation = extent(a, "dilation"),
                     .ceil_mode = flag(a, "ceil")});
}
Tensor mean(const Inputs& in, const Attributes& a) {
  return avg_pool2d(in[0], extent(a, "kernel"),
                    {.stride = extent(a, "stride"),
                     .padding = extent(a, "padding"),
                     .ceil_mode = flag(a, "ceil"),
                     .count_include_pad = flag(a, "include")});
}
Tensor adaptive(const Inputs& in, const Attributes& a) {
  return adaptive_avg_pool2d(in[0], extent(a, "size"));
}
Tensor resized(const Inputs& in, const Attributes& a) {
  InterpolateOptions options{
      .mode = flag(a, "bilinear") ? InterpolateMode::bilinear : InterpolateMode::nearest,
      .align_corners = flag(a, "aligned")};
  if (a.has("size_h")) {
    options.size = extent(a, "size");
  } else {
    options.scale = {a.value("scale_h"), a.value("scale_w")};
  }
  return interpolate(in[0], options);
}

// The gradient of an operation as a function of the gradient of its result.
template <class Op>
auto gradient_of(const Op& op) {
  return [op](const Inputs& in, const Attributes& a) {
    const Tensor leaf = in[0].detach().set_requires_grad();
    return grad(op({leaf}, a), leaf, {.grad_outputs = {in[1]}, .create_graph = true});
  };
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"max_pool2d", Precision::equal, largest},
      {"max_pool2d_gradient", Precision::close, gradient_of(largest)},
      {"avg_pool2d", Precision::sums, mean},
      {"avg_pool2d_gradient", Precision::sums, gradient_of(mean)},
      {"max_pool1d", Precision::equal,
       [](const Inputs& in, const Attributes& a) {
         return max_pool1d(in[0], a["kernel"].integer(),
                           {.stride = a["stride"].integer(),
                            .padding = a["padding"].integer(),
                            .dilation = a["dilation"].integer(),
                            .ceil_mode = flag(a, "ceil")});
       }},
      {"avg_pool1d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return avg_pool1d(in[0], a["kernel"].integer(),
                           {.stride = a["stride"].integer(),
                            .padding = a["padding"].integer(),
                            .ceil_mode = flag(a, "ceil"),
                            .count_include_pad = flag(a, "include")});
       }},
      {"adaptive_avg_pool1d", Precision::sums,
       [](const Inputs& in, const Attributes& a) {
         return adaptive_avg_pool1d(in[0], a["size"].integer());
       }},
      {"adaptive_avg_pool2d", Precision::sums, adaptive},
      {"adaptive_avg_pool2d_gradient", Precision::sums, gradient_of(adaptive)},
      {"interpolate", Precision::sums, resized},
      {"interpolate_gradient", Precision::sums, gradient_of(resized)},
      {"pixel_shuffle", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return pixel_shuffle(in[0], a["upscale_factor"].integer());
       }},
      {"pixel_unshuffle", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return pixel_unshuffle(in[0], a["downscale_factor"].integer());
       }},
  };
  return all;
}

const Registration registration({"pooling", operations});

class GoldenPooling : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenPooling, AsPyTorch) { check("pooling", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenPooling, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryPoolingIsThere) { expect_complete("pooling", operations()); }

}  // namespace
}  // namespace volta::golden
