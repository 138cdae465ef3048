// The promotion table against PyTorch: every pair of dtypes, arrays and scalars, and numbers.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

Operation row(std::string name, std::function<Tensor(const Inputs&)> function) {
  return {std::move(name), Precision::exact,
          [function = std::move(function)](const Inputs& in, const Attributes&) {
            return function(in);
          }};
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> rows;
    const auto sum = [](const Inputs& in) { return in[0] + in[1]; };
    for (const char* name : {"add_tensors", "add_point_right", "add_point_left", "add_points"})
      rows.push_back(row(name, sum));
    const auto choice = [](const Inputs& in) { return where(in[0], in[1], in[2]); };
    rows.push_back(row("where_tensors", choice));
    rows.push_back(row("where_point", choice));
    rows.push_back(row("div_point", [](const Inputs& in) { return in[0] / in[1]; }));
    const auto beside = [&](const std::string& kind, auto number) {
      rows.push_back(row("add_" + kind, [=](const Inputs& in) { return in[0] + number; }));
      rows.push_back(
          row("add_" + kind + "_left", [=](const Inputs& in) { return number + in[0]; }));
      rows.push_back(row("div_" + kind, [=](const Inputs& in) { return in[0] / number; }));
      rows.push_back(row("add_point_" + kind, [=](const Inputs& in) { return in[0] + number; }));
      rows.push_back(
          row("where_" + kind, [=](const Inputs& in) { return where(in[0], in[1], number); }));
    };
    beside("int", 3);
    beside("float", 2.5);
    beside("bool", true);
    return rows;
  }();
  return all;
}

class GoldenPromotion : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenPromotion, AsPyTorch) { check("promotion", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Rows, GoldenPromotion, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryRowOfThePromotionIsThere) { expect_complete("promotion", operations()); }

}  // namespace
}  // namespace volta::golden
