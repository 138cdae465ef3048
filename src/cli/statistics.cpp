// Each is a few reductions that are planned and run together. They are added up in f64, which holds
// every value of the other types but the large ones of i64.
#include "statistics.h"

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

}  // namespace

Statistics statistics_of(const Tensor& tensor) {
  Statistics result;
  if (tensor.numel() == 0) return result;
  const NoGrad no_history;
  const Tensor x = tensor.to(DType::f64);
  const Tensor is_nan = x.isnan(), is_inf = x.isinf();
  const Tensor is_finite = logical_or(is_nan, is_inf).logical_not();
  // Everything is recorded before the first value is looked at: one plan reads the file once.
  const Tensor nans = is_nan.sum(), infinities = is_inf.sum(), zeros = x.eq(0).sum();
  const Tensor sum = where(is_finite, x, 0.0).sum();
  const Tensor least = where(is_finite, x, kInfinity).min();
  const Tensor greatest = where(is_finite, x, -kInfinity).max();
  Tensor least_integer, greatest_integer;
  if (is_integral(tensor.dtype())) {
    const Tensor integers = tensor.to(DType::i64);
    least_integer = integers.min();
    greatest_integer = integers.max();
  }
  result.nans = count_of(nans);
  result.infinities = count_of(infinities);
  result.zeros = count_of(zeros);
  result.finite = static_cast<std::uint64_t>(tensor.numel()) - result.nans - result.infinities;
  if (least_integer.defined()) {
    result.least_integer = least_integer.item<std::int64_t>();
    result.greatest_integer = greatest_integer.item<std::int64_t>();
  }
  if (result.finite == 0) return result;
  result.least = least.item();
  result.greatest = greatest.item();
  const auto count = static_cast<double>(result.finite);
  result.mean = sum.item() / count;
  const Tensor squares = where(is_finite, (x - result.mean).square(), 0.0).sum();
  result.deviation = std::sqrt(squares.item() / count);
  return result;
}

Difference difference_of(const Tensor& a, const Tensor& b, Tolerance tolerance) {
  Difference result;
  if (a.numel() == 0) return result;
  const NoGrad no_history;
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  const bool integers = is_integral(a.dtype()) && is_integral(b.dtype());
  const Tensor same = integers ? a.to(DType::i64).eq(b.to(DType::i64))
                               : logical_or(x.eq(y), logical_and(x.isnan(), y.isnan()));
  const Tensor raw = (x - y).abs();
  const Tensor distance = where(same, 0.0, where(raw.isnan(), kInfinity, raw));
  const Tensor is_far = distance.isinf();
  // Of two infinities the quotient would be no number.
  const Tensor larger = x.abs().maximum(y.abs());
  const Tensor quotient = where(same, 0.0, where(is_far, kInfinity, distance / larger));
  const bool exact = tolerance.relative == 0 && tolerance.absolute == 0;
  const Tensor beyond =
      exact ? same.logical_not()
            : logical_or(is_far, distance.gt(y.abs() * tolerance.relative + tolerance.absolute));
  const Tensor differing = beyond.sum(), absolute = distance.max(), relative = quotient.max();
  result.differing = count_of(differing);
  result.absolute = absolute.item();
  result.relative = relative.item();
  return result;
}

}  // namespace volta::cli
