// Mistakes in calls of batch norm, group norm and instance norm.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using errors::expect;

Tensor of(DType dtype, const Shape& shape) { return ones(shape, {.dtype = dtype}); }
Tensor f32(const Shape& shape) { return of(DType::f32, shape); }
const BatchNormOptions kTraining{.training = true};

TEST(ErrorsNormalization, BatchNormShapes) {
  const Tensor none, x = f32({2, 3, 4}), c = f32({3});
  expect<ArgumentError>([&] { batch_norm(none, c, c); }, "batch_norm: the input is not a tensor");
  expect<ShapeError>([&] { batch_norm(f32({3}), c, c); },
                     "batch_norm: [3] needs [n, channels] and at most 5 axes");
  expect<ShapeError>([&] { batch_norm(f32({}), c, c); },
                     "batch_norm: [] needs [n, channels] and at most 5 axes");
  expect<ShapeError>([&] { batch_norm(f32({2, 3, 1, 1, 1, 1}), c, c); },
                     "batch_norm: [2, 3, 1, 1, 1, 1] needs [n, channels] and at most 5 axes");
  expect<ShapeError>([&] { batch_norm(x, f32({2}), c); },
                     "batch_norm: running_mean [2] is not [3]");
  expect<ShapeError>([&] { batch_norm(x, c, f32({1, 3})); },
                     "batch_norm: running_var [1, 3] is not [3]");
  expect<ShapeError>([&] { batch_norm(x, c, c, f32({4})); }, "batch_norm: weight [4] is not [3]");
  expect<ShapeError>([&] { batch_norm(x, c, c, c, f32({})); }, "batch_norm: bias [] is not [3]");
}

TEST(ErrorsNormalization, BatchNormDtypes) {
  const Tensor x = f32({2, 3, 4}), c = f32({3}), whole = of(DType::i64, {3});
  expect<DTypeError>([&] { batch_norm(of(DType::i64, {2, 3}), c, c); },
                     "batch_norm: expected a floating-point tensor, got i64");
  expect<DTypeError>([&] { batch_norm(x, whole, c); },
                     "batch_norm: input is f32, running_mean is i64");
  expect<DTypeError>([&] { batch_norm(x, c, of(DType::f64, {3})); },
                     "batch_norm: input is f32, running_var is f64");
  expect<DTypeError>([&] { batch_norm(x, c, c, of(DType::bf16, {3})); },
                     "batch_norm: input is f32, weight is bf16");
  expect<DTypeError>([&] { batch_norm(x, c, c, c, whole); },
                     "batch_norm: input is f32, bias is i64");
  expect<DTypeError>([&] { batch_norm(of(DType::f16, {2, 3}), of(DType::bf16, {3}), c); },
                     "batch_norm: input is f16, running_mean is bf16");
}

TEST(ErrorsNormalization, BatchNormArguments) {
  const Tensor none, x = f32({2, 3, 4}), c = f32({3});
  expect<ArgumentError>([&] { batch_norm(x, c, none); },
                        "batch_norm: running_mean without running_var");
  expect<ArgumentError>([&] { batch_norm(x, none, c); },
                        "batch_norm: running_var without running_mean");
  expect<ArgumentError>([&] { batch_norm(x, c, c, c, c, {.eps = -1}); },
                        "batch_norm: eps -1 is negative");
  expect<ArgumentError>([&] { batch_norm(f32({1, 3}), c, c, c, c, kTraining); },
                        "batch_norm: expected more than 1 value per channel, got [1, 3]");
  expect<ArgumentError>([&] { batch_norm(f32({1, 3, 1, 1}), none, none); },
                        "batch_norm: expected more than 1 value per channel, got [1, 3, 1, 1]");
  for (const double momentum : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const BatchNormOptions options{.training = true, .momentum = momentum};
    const std::string number = std::isnan(momentum) ? "nan" : momentum > 0 ? "inf" : "-inf";
    expect<ArgumentError>([&] { batch_norm(x, c, c, c, c, options); },
                          "batch_norm: momentum " + number + " is not finite");
  }
}

// Unless history is recorded, they may be changed like any leaf.
TEST(ErrorsNormalization, RunningStatisticsThatRequireGradients) {
  const Tensor x = f32({2, 3, 4}), c = f32({3});
  const Tensor wanting = f32({3}).clone().set_requires_grad();
  for (const bool training : {true, false}) {
    expect<ArgumentError>(
        [&] { batch_norm(x, wanting, c, {}, {}, {.training = training}); },
        "batch_norm: running_mean requires a gradient, but none flows to running statistics");
    expect<ArgumentError>(
        [&] { batch_norm(x, c, wanting, {}, {}, {.training = training}); },
        "batch_norm: running_var requires a gradient, but none flows to running statistics");
    expect<ArgumentError>(
        [&] { batch_norm(x, c, wanting * 2, {}, {}, {.training = training}); },
        "batch_norm: running_var requires a gradient, but none flows to running statistics");
  }
  EXPECT_EQ(wanting.to_vector<float>(), (std::vector<float>{1, 1, 1}));
  const NoGrad nothing_recorded;
  batch_norm(x, c.clone(), wanting, {}, {}, {.training = true, .momentum = 1});
  EXPECT_EQ(wanting.to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(ErrorsNormalization, BatchNormDevices) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const ExecutionContext strict({.mixed_devices = MixedDevices::error});
  const Tensor x = f32({2, 3}).to(test_device()), c = f32({3});
  EXPECT_THROW(batch_norm(x, c, c), DeviceError);
}

// A call that throws changes no statistics.
TEST(ErrorsNormalization, RunningStatisticsStay) {
  const Tensor mean = f32({3}).clone(), variance = f32({3}).clone();
  expect<ShapeError>([&] { batch_norm(f32({2, 3}), mean, variance, {}, f32({2}), kTraining); },
                     "batch_norm: bias [2] is not [3]");
  EXPECT_EQ(mean.to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(variance.to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

TEST(ErrorsNormalization, GroupNorm) {
  const Tensor none, x = f32({2, 6, 4}), c = f32({6});
  expect<ArgumentError>([&] { group_norm(none, 2); }, "group_norm: the input is not a tensor");
  expect<ShapeError>([&] { group_norm(f32({6}), 2); },
                     "group_norm: [6] needs [n, channels] and at most 5 axes");
  expect<DTypeError>([&] { group_norm(of(DType::i32, {2, 6}), 2); },
                     "group_norm: expected a floating-point tensor, got i32");
  expect<ArgumentError>([&] { group_norm(x, 4); },
                        "group_norm: 6 channels are no multiple of 4 groups");
  expect<ArgumentError>([&] { group_norm(x, 0); },
                        "group_norm: 6 channels are no multiple of 0 groups");
  expect<ShapeError>([&] { group_norm(x, 2, f32({2})); }, "group_norm: weight [2] is not [6]");
  expect<ShapeError>([&] { group_norm(x, 2, c, f32({5})); }, "group_norm: bias [5] is not [6]");
  expect<DTypeError>([&] { group_norm(x, 2, of(DType::f64, {6})); },
                     "group_norm: input is f32, weight is f64");
  expect<DTypeError>([&] { group_norm(x, 2, c, of(DType::boolean, {6})); },
                     "group_norm: input is f32, bias is bool");
  expect<ArgumentError>([&] { group_norm(x, 2, c, c, -0.5); }, "group_norm: eps -0.5 is negative");
}

TEST(ErrorsNormalization, InstanceNorm) {
  const Tensor none, x = f32({2, 6, 4}), c = f32({6});
  expect<ArgumentError>([&] { instance_norm(none); }, "instance_norm: the input is not a tensor");
  expect<ShapeError>([&] { instance_norm(f32({6})); },
                     "instance_norm: [6] needs [n, channels] and at most 5 axes");
  expect<DTypeError>([&] { instance_norm(of(DType::i32, {2, 6})); },
                     "instance_norm: expected a floating-point tensor, got i32");
  expect<ArgumentError>([&] { instance_norm(f32({2, 6, 1})); },
                        "instance_norm: expected more than 1 value per channel, got [2, 6, 1]");
  expect<ShapeError>([&] { instance_norm(x, f32({2})); }, "instance_norm: weight [2] is not [6]");
  expect<ShapeError>([&] { instance_norm(x, c, f32({5})); }, "instance_norm: bias [5] is not [6]");
  expect<DTypeError>([&] { instance_norm(x, of(DType::f64, {6})); },
                     "instance_norm: input is f32, weight is f64");
  expect<ArgumentError>([&] { instance_norm(x, c, c, -0.5); },
                        "instance_norm: eps -0.5 is negative");
}

}  // namespace
}  // namespace volta
