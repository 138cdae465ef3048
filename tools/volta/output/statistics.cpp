// Each statistic is a few reductions that are planned and run together, with one pass over the
// file. Only the results are held when the plan is made, so nothing as large as the tensor is
// written. Values are computed in f64, which holds all values of the other dtypes except large ones
// of i64.
#include "output/statistics.h"

#include <cmath>
#include <limits>

#include "volta/autograd.h"
#include "volta/dtype.h"
#include "volta/ops.h"

namespace volta::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::uint64_t count_of(const Tensor& mask) {
  return static_cast<std::uint64_t>(mask.item<std::int64_t>());
}

Tensor finite_mask(const Tensor& x) { return logical_or(x.isnan(), x.isinf()).logical_not(); }

struct Sums {
  Tensor nans, infinities, zeros, sum, least, greatest;
  Tensor least_integer, greatest_integer;  // for integer dtypes
};
Sums sums_of(const Tensor& tensor) {
  const Tensor x = tensor.to(DType::f64), is_finite = finite_mask(x);
  Sums sums{.nans = x.isnan().sum(),
            .infinities = x.isinf().sum(),
            .zeros = x.eq(0).sum(),
            .sum = where(is_finite, x, 0.0).sum(),
            .least = where(is_finite, x, kInfinity).min(),
            .greatest = where(is_finite, x, -kInfinity).max(),
            .least_integer = {},
            .greatest_integer = {}};
  if (is_integral(tensor.dtype())) {
    const Tensor integers = tensor.to(DType::i64);
    sums.least_integer = integers.min();
    sums.greatest_integer = integers.max();
  }
  return sums;
}

Tensor squares_about(const Tensor& tensor, double mean) {
  const Tensor x = tensor.to(DType::f64);
  return where(finite_mask(x), (x - mean).square(), 0.0).sum();
}

struct Distances {
  Tensor differing, absolute, relative;
};
Distances distances_of(const Tensor& a, const Tensor& b, Tolerance tolerance) {
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  const bool integers = is_integral(a.dtype()) && is_integral(b.dtype());
  const Tensor same = integers ? a.to(DType::i64).eq(b.to(DType::i64))
                               : logical_or(x.eq(y), logical_and(x.isnan(), y.isnan()));
  const Tensor raw = (x - y).abs();
  const Tensor distance = where(same, 0.0, where(raw.isnan(), kInfinity, raw));
  const Tensor is_far = distance.isinf();
  // The quotient of two infinities would be NaN.
  const Tensor larger = x.abs().maximum(y.abs());
  const Tensor quotient = where(same, 0.0, where(is_far, kInfinity, distance / larger));
  const bool exact = tolerance.relative == 0 && tolerance.absolute == 0;
  const Tensor beyond =
      exact ? same.logical_not()
            : logical_or(is_far, distance.gt(y.abs() * tolerance.relative + tolerance.absolute));
  return {.differing = beyond.sum(), .absolute = distance.max(), .relative = quotient.max()};
}

}  // namespace

Statistics statistics_of(const Tensor& tensor) {
  Statistics result;
  if (tensor.numel() == 0) return result;
  const NoGrad no_history;
  const Sums sums = sums_of(tensor);
  result.nans = count_of(sums.nans);
  result.infinities = count_of(sums.infinities);
  result.zeros = count_of(sums.zeros);
  result.finite = static_cast<std::uint64_t>(tensor.numel()) - result.nans - result.infinities;
  if (sums.least_integer.defined()) {
    result.least_integer = sums.least_integer.item<std::int64_t>();
    result.greatest_integer = sums.greatest_integer.item<std::int64_t>();
  }
  if (result.finite == 0) return result;
  result.least = sums.least.item();
  result.greatest = sums.greatest.item();
  const auto count = static_cast<double>(result.finite);
  result.mean = sums.sum.item() / count;
  result.deviation = std::sqrt(squares_about(tensor, result.mean).item() / count);
  return result;
}

Difference difference_of(const Tensor& a, const Tensor& b, Tolerance tolerance) {
  if (a.numel() == 0) return {};
  const NoGrad no_history;
  const Distances distances = distances_of(a, b, tolerance);
  return {.differing = count_of(distances.differing),
          .absolute = distances.absolute.item(),
          .relative = distances.relative.item()};
}

}  // namespace volta::cli
