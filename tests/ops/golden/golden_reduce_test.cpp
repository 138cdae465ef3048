// Reductions against PyTorch.
#include <gtest/gtest.h>

#include <limits>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

Axes axes_of(const Attributes& a) {
  if (!a.has("axis")) return {};
  if (!a.has("axis2")) return a["axis"].integer();
  return {a["axis"].integer(), a["axis2"].integer()};
}
std::optional<std::int64_t> axis_of(const Attributes& a) {
  return a.has("axis") ? std::optional(a["axis"].integer()) : std::nullopt;
}
bool keepdim_of(const Attributes& a) { return a.has("keepdim"); }
VarOptions options_of(const Attributes& a) {
  return {.correction = a.has("correction") ? a.value("correction") : 1, .keepdim = keepdim_of(a)};
}

#define VOLTA_REDUCTION(name, precision)                                     \
  Operation {                                                                \
    #name, Precision::precision, [](const Inputs& in, const Attributes& a) { \
      return volta::name(in[0], axes_of(a), keepdim_of(a));                  \
    }                                                                        \
  }
#define VOLTA_ALONG(name, precision)                                         \
  Operation {                                                                \
    #name, Precision::precision, [](const Inputs& in, const Attributes& a) { \
      return volta::name(in[0], a["axis"].integer());                        \
    }                                                                        \
  }

const std::vector<Operation>& operations() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const std::vector<Operation> all = {
      VOLTA_REDUCTION(sum, close),
      VOLTA_REDUCTION(mean, close),
      VOLTA_REDUCTION(prod, close),
      VOLTA_REDUCTION(max, exact),
      VOLTA_REDUCTION(min, exact),
      VOLTA_REDUCTION(any, exact),
      VOLTA_REDUCTION(all, exact),
      VOLTA_REDUCTION(logsumexp, close),
      {"argmax", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return argmax(in[0], axis_of(a), keepdim_of(a));
       }},
      {"argmin", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return argmin(in[0], axis_of(a), keepdim_of(a));
       }},
      {"var", Precision::close,
       [](const Inputs& in, const Attributes& a) { return var(in[0], axes_of(a), options_of(a)); }},
      {"std", Precision::close,
       [](const Inputs& in, const Attributes& a) { return in[0].std(axes_of(a), options_of(a)); }},
      {"norm", Precision::close,
       [](const Inputs& in, const Attributes& a) {
         return norm(in[0], a.has("p") ? a.value("p") : 2, axes_of(a), keepdim_of(a));
       }},
      {"norm_inf", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return norm(in[0], kInf, axes_of(a), keepdim_of(a));
       }},
      {"norm_least", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return norm(in[0], -kInf, axes_of(a), keepdim_of(a));
       }},
      VOLTA_ALONG(softmax, close),
      VOLTA_ALONG(log_softmax, close),
      VOLTA_ALONG(cumsum, close),
  };
  return all;
}

const Registration registration({"reduce", operations});

class GoldenReduce : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenReduce, AsPyTorch) { check("reduce", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenReduce, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryReductionIsThere) { expect_complete("reduce", operations()); }

}  // namespace
}  // namespace volta::golden
