// Parts of a tensor: ranges, strides, flips, windows. They rewrite index expressions.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/record/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace {

using Numbers = std::vector<std::int64_t>;
using Range = std::pair<std::int64_t, std::int64_t>;

Tensor shrunk(const Tensor& x, Numbers start, const Shape& result, SourceLocation place) {
  start.insert(start.end(), result.begin(), result.end());
  return apply(OpId::shrink, {&x, 1}, start, result, x.dtype(), place);
}

// Every step-th element, beginning with `start`.
Tensor strided(const Tensor& x, Numbers start, const Numbers& step, const Shape& result,
               SourceLocation place) {
  if (std::all_of(step.begin(), step.end(), [](std::int64_t n) { return n == 1; })) {
    return result == x.shape() ? x.clone(place) : shrunk(x, std::move(start), result, place);
  }
  start.insert(start.end(), step.begin(), step.end());
  start.insert(start.end(), result.begin(), result.end());
  return apply(OpId::stride, {&x, 1}, start, result, x.dtype(), place);
}

std::size_t rank_of(const Tensor& x) { return static_cast<std::size_t>(x.rank()); }

}  // namespace

Tensor Tensor::narrow(std::int64_t axis, std::int64_t start, std::int64_t length,
                      SourceLocation place) const {
  graph::require_defined("narrow", *this);
  const int at = normalize_axis("narrow", axis, shape());
  const std::int64_t size = shape()[at];
  // A negative start counts from the end.
  const std::int64_t first = start < 0 && start >= -size ? start + size : start;
  if (first < 0 || length < 0 || first > size - length) {
    throw ShapeError(fmt::format("narrow: [{}, {} + {}) is outside axis {} of {}", start, start,
                                 length, axis, to_string(shape())));
  }
  Numbers from(rank_of(*this), 0);
  from[static_cast<std::size_t>(at)] = first;
  return shrunk(*this, std::move(from), shape().with(at, length), place);
}

Tensor Tensor::shrink(std::span<const Range> ranges, SourceLocation place) const {
  graph::require_defined("shrink", *this);
  if (ranges.size() != rank_of(*this)) {
    throw ShapeError(
        fmt::format("shrink: {} ranges for {}", ranges.size(), to_string(this->shape())));
  }
  Numbers start, sizes;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto [from, to] = ranges[i];
    if (from < 0 || to < from || to > shape()[static_cast<int>(i)]) {
      throw ShapeError(fmt::format("shrink: [{}, {}) is outside axis {} of {}", from, to, i,
                                   to_string(shape())));
    }
    start.push_back(from);
    sizes.push_back(to - from);
  }
  return shrunk(*this, std::move(start), Shape(sizes), place);
}
Tensor Tensor::shrink(std::initializer_list<Range> ranges, SourceLocation place) const {
  return shrink(std::span(ranges.begin(), ranges.size()), place);
}

Tensor Tensor::stride(std::span<const std::int64_t> steps, SourceLocation place) const {
  graph::require_defined("stride", *this);
  if (steps.size() != rank_of(*this)) {
    throw ShapeError(fmt::format("stride: {} steps for {}", steps.size(), to_string(shape())));
  }
  Numbers start, taken, sizes;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t step = steps[i], size = shape()[static_cast<int>(i)];
    if (step == 0 || step == std::numeric_limits<std::int64_t>::min())
      throw ArgumentError(fmt::format("stride: step {} along axis {}", step, i));
    sizes.push_back(size == 0 ? 0 : (size - 1) / std::abs(step) + 1);
    start.push_back(step < 0 && size > 0 ? size - 1 : 0);
    taken.push_back(sizes.back() > 1 ? step : 1);
  }
  return strided(*this, std::move(start), taken, Shape(sizes), place);
}
Tensor Tensor::stride(std::initializer_list<std::int64_t> steps, SourceLocation place) const {
  return stride(std::span(steps.begin(), steps.size()), place);
}

Tensor Tensor::flip(std::span<const std::int64_t> axes, SourceLocation place) const {
  graph::require_defined("flip", *this);
  Numbers steps(rank_of(*this), 1);
  for (const std::int64_t axis : axes) {
    if (graph::is_axis_of_scalar("flip", axis, shape())) continue;
    std::int64_t& step = steps[static_cast<std::size_t>(normalize_axis("flip", axis, shape()))];
    if (step < 0) {
      throw ShapeError(fmt::format("flip: an axis of {} appears twice in [{}]", to_string(shape()),
                                   fmt::join(axes, ", ")));
    }
    step = -1;
  }
  return stride(steps, place);
}
Tensor Tensor::flip(std::initializer_list<std::int64_t> axes, SourceLocation place) const {
  return flip(std::span(axes.begin(), axes.size()), place);
}
Tensor Tensor::flip(std::int64_t axis, SourceLocation place) const {
  return flip({&axis, 1}, place);
}

Tensor Tensor::unfold(std::int64_t axis, std::int64_t size, std::int64_t step,
                      SourceLocation place) const {
  graph::require_defined("unfold", *this);
  if (graph::is_axis_of_scalar("unfold", axis, shape()))
    return unsqueeze(0, place).unfold(0, size, step, place).squeeze(0, place);
  const int at = normalize_axis("unfold", axis, shape());
  if (step < 1) throw ArgumentError(fmt::format("unfold: step {} along axis {}", step, axis));
  if (size < 1 || size > shape()[at]) {
    throw ShapeError(
        fmt::format("unfold: windows of {} along axis {} of {}", size, axis, to_string(shape())));
  }
  const Shape outer = shape().with(at, (shape()[at] - size) / step + 1);
  return apply(OpId::unfold, {*this}, {at, size, step}, outer.inserted(rank(), size, "unfold"),
               dtype(), place);
}

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length,
              SourceLocation place) {
  return x.narrow(axis, start, length, place);
}
Tensor flip(const Tensor& x, std::span<const std::int64_t> axes, SourceLocation place) {
  return x.flip(axes, place);
}

}  // namespace volta
