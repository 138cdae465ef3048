// Movement against PyTorch.
#include <gtest/gtest.h>

#include "ops/golden/golden.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using Inputs = std::vector<Tensor>;
using Numbers = std::vector<std::int64_t>;

// The numbers a0, a1, ... (or b0, ...).
Numbers list(const Attributes& a, char letter = 'a') {
  Numbers numbers;
  for (int i = 0; a.has(letter + std::to_string(i)); ++i)
    numbers.push_back(a[letter + std::to_string(i)].integer());
  return numbers;
}
std::int64_t whole(const Attributes& a, const char* name) { return a[name].integer(); }

Tensor bordered(const Tensor& x, const Attributes& a, PadOptions options) {
  return pad(x, list(a), list(a, 'b'), options);
}

#define VOLTA_MOVEMENT(name, call)                                                        \
  Operation {                                                                             \
    name, Precision::exact,                                                               \
        [](const Inputs& in, [[maybe_unused]] const Attributes& a) { return in[0].call; } \
  }

// Calls the function with the sizes as a braced list would.
Tensor shaped(const Tensor& x, const Numbers& n, bool expands) {
  const auto call = [&](auto... sizes) {
    return expands ? x.expand({sizes...}) : x.reshape({sizes...});
  };
  return n.size() == 1 ? call(n[0]) : n.size() == 2 ? call(n[0], n[1]) : call(n[0], n[1], n[2]);
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"reshape", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return shaped(in[0], list(a), false); }},
      {"expand", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return shaped(in[0], list(a), true); }},
      VOLTA_MOVEMENT("flatten", flatten()),
      VOLTA_MOVEMENT("unflatten", unflatten(whole(a, "axis"), list(a))),
      VOLTA_MOVEMENT("permute", permute(list(a))),
      VOLTA_MOVEMENT("transpose", transpose(whole(a, "p"), whole(a, "q"))),
      VOLTA_MOVEMENT("squeeze", squeeze()),
      VOLTA_MOVEMENT("unsqueeze", unsqueeze(whole(a, "axis"))),
      VOLTA_MOVEMENT("narrow", narrow(whole(a, "axis"), whole(a, "start"), whole(a, "length"))),
      {"shrink", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         const Numbers from = list(a), to = list(a, 'b');
         std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
         for (std::size_t i = 0; i < from.size(); ++i) ranges.emplace_back(from[i], to[i]);
         return in[0].shrink(ranges);
       }},
      VOLTA_MOVEMENT(
          "slice", slice(whole(a, "axis"), whole(a, "start"), whole(a, "stop"), whole(a, "step"))),
      VOLTA_MOVEMENT("stride", stride(list(a))),
      VOLTA_MOVEMENT("flip", flip(list(a))),
      VOLTA_MOVEMENT("roll", roll(list(a), list(a, 'b'))),
      VOLTA_MOVEMENT("roll_all", roll(whole(a, "shift"))),
      VOLTA_MOVEMENT("repeat", repeat(list(a))),
      VOLTA_MOVEMENT("tile", tile(list(a))),
      VOLTA_MOVEMENT("repeat_interleave", repeat_interleave(whole(a, "count"), whole(a, "axis"))),
      VOLTA_MOVEMENT("unfold", unfold(whole(a, "axis"), whole(a, "size"), whole(a, "step"))),
      {"pad", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         // For bool tensors PyTorch treats any number as true or false.
         const bool truth = in[0].dtype() == DType::boolean;
         return bordered(in[0], a, {.value = truth ? Scalar(a.value("value") != 0) : a["value"]});
       }},
      {"pad_reflect", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return bordered(in[0], a, {.mode = PadMode::reflect});
       }},
      {"pad_replicate", Precision::exact,
       [](const Inputs& in, const Attributes& a) {
         return bordered(in[0], a, {.mode = PadMode::replicate});
       }},
      VOLTA_MOVEMENT("split", split(whole(a, "size"),
                                    whole(a, "axis"))[static_cast<std::size_t>(whole(a, "part"))]),
      VOLTA_MOVEMENT("split_sizes",
                     split(list(a), whole(a, "axis"))[static_cast<std::size_t>(whole(a, "part"))]),
      VOLTA_MOVEMENT("chunk", chunk(whole(a, "count"),
                                    whole(a, "axis"))[static_cast<std::size_t>(whole(a, "part"))]),
      {"concat", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return concat(in, whole(a, "axis")); }},
      {"stack", Precision::exact,
       [](const Inputs& in, const Attributes& a) { return stack(in, whole(a, "axis")); }},
  };
  return all;
}

const Registration registration({"movement", operations});

class GoldenMovement : public ::testing::TestWithParam<Operation> {};
TEST_P(GoldenMovement, AsPyTorch) { check("movement", GetParam()); }
INSTANTIATE_TEST_SUITE_P(Ops, GoldenMovement, ::testing::ValuesIn(operations()),
                         [](const auto& info) { return info.param.name; });

TEST(Golden, EveryMovementIsThere) { expect_complete("movement", operations()); }

}  // namespace
}  // namespace volta::golden
