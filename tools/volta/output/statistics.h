// Statistics of tensors, computed by Volta.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta::cli {

// Statistics of one tensor; least, greatest, mean and deviation cover its finite elements.
struct Statistics {
  std::uint64_t finite = 0, nans = 0, infinities = 0, zeros = 0;
  double least = 0, greatest = 0;
  std::int64_t least_integer = 0, greatest_integer = 0;  // exact, for integer dtypes
  double mean = 0;
  // Population deviation: the sum of squares is divided by the number of elements.
  double deviation = 0;
};
Statistics statistics_of(const Tensor& tensor);

// The difference of two tensors of one shape. NaN equals NaN; an element that is NaN or infinite in
// only one of them is infinitely far.
struct Difference {
  std::uint64_t differing = 0;  // elements with |a - b| > atol + rtol |b|
  double absolute = 0;          // the largest |a - b|
  double relative = 0;          // the largest |a - b| / max(|a|, |b|)
};
struct Tolerance {
  double relative = 0, absolute = 0;
};
Difference difference_of(const Tensor& a, const Tensor& b, Tolerance tolerance);

}  // namespace volta::cli
