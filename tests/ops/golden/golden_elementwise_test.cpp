// Elementwise operations against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

#define VOLTA_UNARY(name, precision)                                                             \
  Operation {                                                                                    \
    #name, Precision::precision, [](const Inputs& in, const Attributes&) { return name(in[0]); } \
  }
#define VOLTA_BINARY(name, precision)                                          \
  Operation {                                                                  \
    #name, Precision::precision,                                               \
        [](const Inputs& in, const Attributes&) { return name(in[0], in[1]); } \
  }

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      VOLTA_UNARY(neg, exact),
      VOLTA_UNARY(abs, exact),
      VOLTA_UNARY(sign, exact),
      VOLTA_UNARY(square, exact),
      VOLTA_UNARY(reciprocal, exact),
      VOLTA_UNARY(sqrt, exact),
      VOLTA_UNARY(rsqrt, exact),
      VOLTA_UNARY(exp, close),
      VOLTA_UNARY(exp2, close),
      VOLTA_UNARY(expm1, close),
      VOLTA_UNARY(log, close),
      VOLTA_UNARY(log2, close),
      VOLTA_UNARY(log1p, close),
      VOLTA_UNARY(sin, close),
      VOLTA_UNARY(cos, close),
      VOLTA_UNARY(tan, close),
      VOLTA_UNARY(asin, close),
      VOLTA_UNARY(acos, close),
      VOLTA_UNARY(atan, close),
      VOLTA_UNARY(sinh, close),
      VOLTA_UNARY(cosh, close),
      VOLTA_UNARY(tanh, close),
      VOLTA_UNARY(sigmoid, close),
      VOLTA_UNARY(erf, close),
      VOLTA_UNARY(floor, exact),
      VOLTA_UNARY(ceil, exact),
      VOLTA_UNARY(round, exact),
      VOLTA_UNARY(isnan, exact),
      VOLTA_UNARY(isinf, exact),
      VOLTA_UNARY(logical_not, exact),
      VOLTA_UNARY(relu, close),
      VOLTA_UNARY(gelu, close),
      VOLTA_UNARY(silu, close),
      VOLTA_UNARY(mish, close),
      VOLTA_UNARY(hardswish, exact),
      {"leaky_relu", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return leaky_relu(in[0], a.value("slope")); }},
      {"elu", Precision::close,
       [](const Inputs& in, const Attributes& a) { return elu(in[0], a.value("alpha")); }},
      {"gelu_tanh", Precision::close,
       [](const Inputs& in, const Attributes&) { return gelu(in[0], {.tanh = true}); }},
      {"softplus", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return softplus(in[0], a.value("beta"), a.value("threshold"));
       }},
      VOLTA_BINARY(add, exact),
      VOLTA_BINARY(sub, exact),
      VOLTA_BINARY(mul, exact),
      VOLTA_BINARY(div, exact),
      VOLTA_BINARY(pow, close),
      VOLTA_BINARY(maximum, equal),
      VOLTA_BINARY(minimum, equal),
      VOLTA_BINARY(mod, exact),
      VOLTA_BINARY(fmod, exact),
      VOLTA_BINARY(floor_div, exact),
      VOLTA_BINARY(atan2, close),
      VOLTA_BINARY(lt, exact),
      VOLTA_BINARY(le, exact),
      VOLTA_BINARY(gt, exact),
      VOLTA_BINARY(ge, exact),
      VOLTA_BINARY(eq, exact),
      VOLTA_BINARY(ne, exact),
      VOLTA_BINARY(logical_and, exact),
      VOLTA_BINARY(logical_or, exact),
      VOLTA_BINARY(logical_xor, exact),
      {"clamp", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         const auto bound = [&](const char* name) {
           return a.has(name) ? std::optional<Operand>(a[name]) : std::nullopt;
         };
         return clamp(in[0], bound("low"), bound("high"));
       }},
      {"clamp_tensors", Precision::exact,
       [](const Inputs& in, const Attributes&) { return clamp(in[0], in[1], in[2]); }},
      {"mulacc", Precision::close,
       [](const Inputs& in, const Attributes&) { return mulacc(in[0], in[1], in[2]); }},
      {"lerp", Precision::close,
       [](const Inputs& in, const Attributes&) { return lerp(in[0], in[1], in[2]); }},
      {"addcmul", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return addcmul(in[0], in[1], in[2], a["value"]);
       }},
      {"addcdiv", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return addcdiv(in[0], in[1], in[2], a["value"]);
       }},
      {"where", Precision::exact,
       [](const Inputs& in, const Attributes&) { return where(in[0], in[1], in[2]); }},
  };
  return all;
}

const Registration registration({"elementwise", operations});

class GoldenElementwise : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenElementwise, AsPyTorch) { check("elementwise", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenElementwise, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryElementwiseOperationIsThere) { expect_complete("elementwise", operations()); }

}  // namespace
}  // namespace volta::golden
