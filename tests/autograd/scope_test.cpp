// Scopes of a thread's settings (NoGrad, EnableGrad, ExecutionContext and Autocast) that end out of
// order.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

// Scopes on the heap may end in any order: the remaining ones decide, until none is left.
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

TEST(Scopes, AContextKeepsWhatItDoesNotName) {
  const ExecutionOptions at_first = execution_options();
  {
    const ExecutionContext outer({.matmul = Precision::tf32,
                                  .mixed_devices = MixedDevices::error,
                                  .gpu_threshold = 7,
                                  .gpu = Device::cpu(),
                                  .deterministic = false});
    {
      const ExecutionContext inner({.placement = Placement::as_written});
      const ExecutionOptions now = execution_options();
      EXPECT_EQ(now.matmul, Precision::tf32);
      EXPECT_EQ(now.mixed_devices, MixedDevices::error);
      EXPECT_EQ(now.placement, Placement::as_written);
      EXPECT_EQ(now.gpu_threshold, 7);
      EXPECT_EQ(now.gpu, Device::cpu());
      EXPECT_FALSE(now.deterministic);
      // The option is named although it has the standard value.
      const ExecutionContext innermost({.matmul = Precision::f32, .deterministic = true});
      EXPECT_EQ(execution_options().matmul, Precision::f32);
      EXPECT_TRUE(execution_options().deterministic);
      EXPECT_EQ(execution_options().gpu_threshold, 7);
      EXPECT_EQ(execution_options().placement, Placement::as_written);
    }
    const ExecutionContext nothing({});
    EXPECT_EQ(execution_options().matmul, Precision::tf32);
    // Restores the options that were in force elsewhere, whatever scopes are open here.
    const ExecutionContext as_at_first(at_first);
    EXPECT_EQ(execution_options().matmul, at_first.matmul);
    EXPECT_EQ(execution_options().gpu_threshold, at_first.gpu_threshold);
  }
  EXPECT_EQ(execution_options().matmul, at_first.matmul);
  EXPECT_EQ(execution_options().placement, at_first.placement);
}

// The library's own scopes name the options that they need and leave the others unchanged.
TEST(Scopes, ABackwardPassKeepsTheOptionsForAUsersFunction) {
  Precision inside = Precision::f32;
  Tensor x = ones({2, 2}, {.device = test_device(), .requires_grad = true});
  x.register_hook([&](const Tensor& gradient) {
    inside = execution_options().matmul;
    return gradient;
  });
  const ExecutionContext context({.matmul = Precision::tf32});
  (x * 2).sum().backward();
  EXPECT_EQ(inside, Precision::tf32);
}

// The scope in which a backward pass began ends while the pass runs.
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
