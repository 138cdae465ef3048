// Indexing against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;

// Returns x with `value` assigned by `write`.
template <class Write>
Operation writes(const char* name, Write write) {
  return {name, Precision::exact, [write](const Inputs& in, const Attributes&) {
            Tensor x = in[0] * 1;
            write(x, in[1]);
            return x;
          }};
}
template <class Read>
Operation reads(const char* name, Read read) {
  return {name, Precision::exact,
          [read](const Inputs& in, const Attributes&) { return Tensor(read(in)); }};
}

Tensor like(const Tensor& x, std::initializer_list<double> values, const Shape& shape,
            DType dtype = DType::i64) {
  return tensor(values, shape, {.dtype = dtype, .device = x.device()});
}

SortOptions order(const Attributes& a) {
  return {.descending = a.has("descending") && a.value("descending") != 0};
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      reads("read_row", [](const Inputs& in) { return in[0][-1]; }),
      reads("read_range", [](const Inputs& in) { return in[0].index({Slice{}, Slice{1, 3}}); }),
      reads("read_step",
            [](const Inputs& in) { return in[0].index({Slice{.step = 2}, Slice{1}}); }),
      reads("read_newaxis", [](const Inputs& in) { return in[0].index({ellipsis, newaxis, 0}); }),
      reads("read_corner", [](const Inputs& in) { return in[0].index({Slice{1}, Slice{-2}}); }),
      reads("index_rows", [](const Inputs& in) { return in[0][in[1]]; }),
      reads("index_columns", [](const Inputs& in) { return in[0].index({Slice{}, in[1]}); }),
      reads("index_pairs", [](const Inputs& in) { return in[0].index({in[1], in[1].flip(0)}); }),
      reads("index_outer",
            [](const Inputs& in) { return in[0].index({in[1].unsqueeze(1), in[1]}); }),
      reads("index_beside_range",
            [](const Inputs& in) { return in[0].slice(0, 1).index({in[1] - 1, Slice{0, 2}}); }),
      reads("index_mask", [](const Inputs& in) { return in[0][in[1]]; }),
      reads("masked_select", [](const Inputs& in) { return masked_select(in[0], in[1]); }),
      {"masked_fill", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return masked_fill(in[0], in[1], a["value"]); }},
      writes("write_row", [](Tensor& x, const Tensor& v) { x[-1] = v; }),
      writes("write_range",
             [](Tensor& x, const Tensor& v) { x.index({Slice{}, Slice{1, 3}}) = v; }),
      writes("write_step",
             [](Tensor& x, const Tensor& v) { x.index({Slice{.step = 2}, Slice{1}}) = v; }),
      writes("write_rows", [](Tensor& x, const Tensor& v) { x[like(x, {2, 0}, {2})] = v; }),
      writes("write_outer",
             [](Tensor& x, const Tensor& v) {
               x.index({like(x, {2, 0}, {2, 1}), like(x, {1, 3}, {2})}) = v;
             }),
      writes("write_mask",
             [](Tensor& x, const Tensor& v) { x[like(x, {1, 0, 1}, {3}, DType::boolean)] = v; }),
      reads("gather", [](const Inputs& in) { return gather(in[0], 0, in[1]); }),
      reads("take_along_axis", [](const Inputs& in) { return take_along_axis(in[0], in[1], 1); }),
      reads("index_select", [](const Inputs& in) { return index_select(in[0], 1, in[1]); }),
      reads("scatter", [](const Inputs& in) { return scatter(in[0], 0, in[1], in[2]); }),
      // Adding nothing to -0 gives 0 here.
      {"scatter_add", Precision::close,
       [](const Inputs& in, const Attributes&) { return scatter_add(in[0], 0, in[1], in[2]); }},
      {"index_add", Precision::close,
       [](const Inputs& in, const Attributes&) { return index_add(in[0], 0, in[1], in[2]); }},
      {"tril", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return tril(in[0], a["diagonal"].integer()); }},
      {"triu", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return triu(in[0], a["diagonal"].integer()); }},
      reads("nonzero", [](const Inputs& in) { return nonzero(in[0]); }),
      {"sort", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return sort(in[0], -1, order(a)).values; }},
      {"argsort", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return argsort(in[0], -1, order(a)); }},
      {"topk", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return topk(in[0], a["k"].integer()).values; }},
      {"one_hot", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return one_hot(in[0], a["classes"].integer());
       }},
  };
  return all;
}

const Registration registration({"indexing", operations, true});

class GoldenIndexing : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenIndexing, AsPyTorch) { check("indexing", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenIndexing, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryIndexingOperationIsThere) { expect_complete("indexing", operations()); }

}  // namespace
}  // namespace volta::golden
