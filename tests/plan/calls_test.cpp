// Library calls: their table, their numbers, and their references.
#include "plan/calls/call.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/steps.h"

namespace volta {
namespace {

using plan::AttentionStep;
using plan::BufferRef;
using plan::ConvStep;

template <std::size_t... I>
std::vector<plan::Step> all_steps(std::index_sequence<I...>) {
  return {plan::Step(std::in_place_index<I>)...};
}

TEST(LibraryCalls, EveryStepButKernelsHasACallOfItsOwn) {
  std::set<std::string> names;
  for (const plan::Step& step :
       all_steps(std::make_index_sequence<std::variant_size_v<plan::Step>>())) {
    const plan::Call* call = plan::call_of(step);
    if (std::holds_alternative<plan::KernelStep>(step)) {
      EXPECT_EQ(call, nullptr);
      continue;
    }
    ASSERT_NE(call, nullptr) << "alternative " << step.index();
    EXPECT_EQ(call->alternative(), step.index());
    EXPECT_TRUE(names.insert(call->name()).second) << call->name();
  }
}

TEST(LibraryCalls, StepsComeBackFromTheirNumbers) {
  ConvStep::Numbers conv;
  for (std::size_t i = 0; i < conv.size(); ++i) conv[i] = static_cast<std::int64_t>(i) + 2;
  conv[0] = 1, conv[1] = static_cast<std::int64_t>(DType::f16), conv[2] = 1;
  conv[19] = 1, conv[20] = static_cast<std::int64_t>(plan::Activation::Relu);
  const ConvStep step = ConvStep::of(conv);
  EXPECT_EQ(step.numbers(), conv);
  EXPECT_EQ(step.kind, ConvStep::Kind::InputGrad);
  EXPECT_EQ(step.padding, (ConvStep::Pair{17, 18}));

  AttentionStep attention;
  attention.gradient = attention.causal = true;
  attention.heads_first = 5;
  attention.by = AttentionStep::By::Kernels;
  attention.masked = true;
  attention.mask = DType::bf16;
  attention.scale = 0.125;
  attention.batch = 2, attention.heads = 8, attention.kv_heads = 4;
  attention.queries = 3, attention.keys = 7, attention.size = 64;
  const AttentionStep same = AttentionStep::of(attention.numbers());
  EXPECT_EQ(same.numbers(), attention.numbers());
  EXPECT_EQ(same.by, attention.by);
  EXPECT_EQ(same.masked, attention.masked);
  EXPECT_EQ(same.mask, attention.mask);
  EXPECT_EQ(same.scale, 0.125);
  EXPECT_EQ(same.kv_heads, 4);
}

// Two pixels with two channels, and one output channel whose kernel covers both pixels.
ConvStep two_pixels(ConvStep::Kind kind) {
  ConvStep step;
  step.kind = kind;
  step.weight_channels_last = true;
  step.n = 1, step.c_in = 2, step.c_out = 1;
  step.in = {1, 2}, step.out = {1, 1}, step.kernel = {1, 2};
  step.stride = step.dilation = {1, 1};
  step.a = {BufferRef::Kind::Leaf, 0, 0};
  step.b = {BufferRef::Kind::Leaf, 1, 0};
  step.c = {BufferRef::Kind::Output, 0, 0};
  return step;
}

bool compute_on_cpu(const ConvStep& step, std::vector<std::vector<float>> leaves,
                    std::vector<float>& output) {
  plan::PlanSteps steps;
  steps.steps.emplace_back(step);
  std::vector<Address> read;
  for (auto& leaf : leaves) read.push_back({leaf.data(), 0});
  const std::vector<Address> written{{output.data(), 0}};
  const plan::Call* call = plan::call_of(steps.steps.front());
  const plan::Reference reference = call->reference(std::move(steps));
  if (reference == nullptr) return false;
  reference({read, written, {}});
  return true;
}

TEST(LibraryCalls, TheReferenceOfAConvolutionReadsWeightsWithTheirChannelsLast) {
  ConvStep step = two_pixels(ConvStep::Kind::Forward);
  step.has_bias = true;
  step.bias = {BufferRef::Kind::Leaf, 2, 0};
  std::vector<float> y(1);
  if (!compute_on_cpu(step, {{1, 10, 100, 1000}, {1, 2, 3, 4}, {0.5f}}, y))
    GTEST_SKIP() << "the CPU has no library for convolutions";
  EXPECT_EQ(y, (std::vector<float>{4321.5f}));
}

TEST(LibraryCalls, TheReferenceOfAConvolutionWritesWeightsWithTheirChannelsLast) {
  std::vector<float> dw(4);
  if (!compute_on_cpu(two_pixels(ConvStep::Kind::WeightGrad), {{1, 10, 100, 1000}, {2}}, dw))
    GTEST_SKIP() << "the CPU has no library for convolutions";
  EXPECT_EQ(dw, (std::vector<float>{2, 20, 200, 2000}));
}

}  // namespace
}  // namespace volta
