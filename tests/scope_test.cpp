// Scopes of a thread's settings: NoGrad, EnableGrad, ExecutionContext and Autocast that end out of
// order.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

// Scopes on the heap may end in any order: what is left decides, and at last nothing is left.
TEST(Scopes, EndInAnyOrder) {
  static_assert(!std::is_copy_constructible_v<Autocast> && !std::is_move_constructible_v<Autocast>);
  static_assert(!std::is_copy_assignable_v<Autocast> && !std::is_move_assignable_v<Autocast>);
  const std::vector<std::vector<std::size_t>> orders{{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  constexpr DType kDTypes[] = {DType::bf16, DType::f16, DType::f32};
  constexpr Precision kPrecisions[] = {Precision::tf32, Precision::f32, Precision::tf32};
  for (const std::vector<std::size_t>& order : orders) {
    std::vector<std::unique_ptr<Autocast>> precisions;
    std::vector<std::unique_ptr<ExecutionContext>> contexts;
    for (const DType dtype : kDTypes) precisions.push_back(std::make_unique<Autocast>(dtype));
    for (const Precision precision : kPrecisions) {
      contexts.push_back(std::make_unique<ExecutionContext>(ExecutionOptions{.matmul = precision}));
    }
    std::unique_ptr<NoGrad> none = std::make_unique<NoGrad>();
    std::unique_ptr<EnableGrad> some = std::make_unique<EnableGrad>();
    std::unique_ptr<NoGrad> again = std::make_unique<NoGrad>();
    for (const std::size_t ended : order) {
      precisions[ended].reset();
      contexts[ended].reset();
      if (ended == 0) none.reset();
      if (ended == 1) some.reset();
      if (ended == 2) again.reset();
      DType dtype = DType::f32;
      Precision precision = Precision::f32;
      for (std::size_t i = 0; i < 3; ++i) {
        if (precisions[i] == nullptr) continue;
        dtype = kDTypes[i];
        precision = kPrecisions[i];
      }
      EXPECT_EQ(Autocast::dtype(), dtype);
      EXPECT_EQ(execution_options().matmul, precision);
      EXPECT_EQ(grad_enabled(), again == nullptr && (some != nullptr || none == nullptr));
    }
    EXPECT_EQ(Autocast::dtype(), DType::f32);
    EXPECT_TRUE(grad_enabled());
  }
}

// The scope that a backward pass began in ends while it runs.
TEST(Scopes, EndInABackwardPass) {
  auto amp = std::make_unique<Autocast>(DType::bf16);
  const Tensor x = ones({2, 2}, {.device = test_device(), .requires_grad = true});
  DType inside = DType::bf16;
  const Function function(
      {.name = "same",
       .forward = [](FunctionContext&,
                     const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 1.0}; },
       .backward =
           [&](FunctionContext&, const std::vector<Tensor>& g) {
             amp.reset();
             inside = Autocast::dtype();
             return std::vector<Tensor>{g[0]};
           }});
  function(x).sum().backward();
  EXPECT_EQ(inside, DType::f32);
  EXPECT_EQ(Autocast::dtype(), DType::f32);
}

}  // namespace
}  // namespace volta
