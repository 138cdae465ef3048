// Mistakes in calls of reductions, in whole messages.
#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor of(const Shape& shape, DType dtype = DType::f32) {
  return ones(shape, {.dtype = dtype, .device = test_device()});
}

using Reduction = std::function<Tensor(const Tensor&, const Axes&)>;
struct Named {
  std::string name;
  Reduction reduce;
};
const std::vector<Named>& reductions() {
  static const std::vector<Named> all{
      {"sum", [](const Tensor& x, const Axes& axes) { return x.sum(axes); }},
      {"mean", [](const Tensor& x, const Axes& axes) { return x.mean(axes); }},
      {"prod", [](const Tensor& x, const Axes& axes) { return x.prod(axes); }},
      {"max", [](const Tensor& x, const Axes& axes) { return x.max(axes); }},
      {"min", [](const Tensor& x, const Axes& axes) { return x.min(axes); }},
      {"any", [](const Tensor& x, const Axes& axes) { return x.any(axes); }},
      {"all", [](const Tensor& x, const Axes& axes) { return x.all(axes); }},
      {"var", [](const Tensor& x, const Axes& axes) { return x.var(axes); }},
      {"std", [](const Tensor& x, const Axes& axes) { return x.std(axes); }},
      {"norm", [](const Tensor& x, const Axes& axes) { return x.norm(2, axes); }},
      {"logsumexp", [](const Tensor& x, const Axes& axes) { return x.logsumexp(axes); }},
  };
  return all;
}

TEST(Errors, ReductionsOfNoTensor) {
  for (const auto& [name, reduce] : reductions())
    expect<ArgumentError>([&] { reduce({}, {}); }, name + ": the input is not a tensor");
  expect<ArgumentError>([] { argmax({}); }, "argmax: the input is not a tensor");
  expect<ArgumentError>([] { argmin({}); }, "argmin: the input is not a tensor");
}

TEST(Errors, ReductionsOverAxesThatAreNotThere) {
  for (const auto& [name, reduce] : reductions()) {
    expect<ShapeError>([&] { reduce(of({2, 3}), 2); },
                       name + ": axis 2 is out of range for [2, 3]");
    expect<ShapeError>([&] { reduce(of({2, 3}), {0, -3}); },
                       name + ": axis -3 is out of range for [2, 3]");
    expect<ShapeError>([&] { reduce(of({}), 1); }, name + ": axis 1 is out of range for []");
    expect<ShapeError>([&] { reduce(of({}), {0, -1}); },
                       name + ": an axis of [] appears twice in [0, -1]");
  }
  expect<ShapeError>([] { of({2, 3}).argmax(2); }, "argmax: axis 2 is out of range for [2, 3]");
  expect<ShapeError>([] { of({2, 3}).argmin(-3); }, "argmin: axis -3 is out of range for [2, 3]");
}

TEST(Errors, ReductionsOverAnAxisTwice) {
  for (const auto& [name, reduce] : reductions()) {
    expect<ShapeError>([&] { reduce(of({2, 3}), {1, -1}); },
                       name + ": an axis of [2, 3] appears twice in [1, -1]");
    expect<ShapeError>([&] { reduce(of({2}), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}); },
                       name + ": an axis of [2] appears twice in [0, 0, 0, 0, 0, 0, 0, 0, 0]");
  }
}

TEST(Errors, ReductionsThatNeedElements) {
  const std::string where = ": no elements along axis 1 of [2, 0]";
  expect<ShapeError>([] { of({2, 0}).max(1); }, "max" + where);
  expect<ShapeError>([] { of({2, 0}).min(); }, "min" + where);
  expect<ShapeError>([] { of({2, 0}).max({0, 1}); }, "max" + where);
  expect<ShapeError>([] { of({2, 0}).argmax(); }, "argmax" + where);
  expect<ShapeError>([] { of({2, 0}).argmin(-1); }, "argmin" + where);
  for (const double p : {kInf, -kInf, -2.0})
    expect<ShapeError>([&] { of({2, 0}).norm(p, 1); }, "norm" + where);
}

TEST(Errors, ReductionsOfIntegersThatAreFractions) {
  for (const auto& [name, reduce] : reductions()) {
    if (name == "sum" || name == "prod" || name == "max" || name == "min" || name == "any" ||
        name == "all")
      continue;
    for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
      expect<DTypeError>(
          [&] { reduce(of({2}, dtype), {}); },
          name + ": expected a floating-point tensor, got " + std::string(name_of(dtype)));
    }
  }
}

TEST(Errors, NormsWithoutAPower) {
  expect<ArgumentError>([] { of({2}).norm(kNan); }, "norm: p is not a number");
}

}  // namespace
}  // namespace volta::errors
