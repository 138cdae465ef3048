// Reductions and operations composed of them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/record/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace {

using AxisList = std::vector<std::int64_t>;

AxisList normalized(const char* op, const Axes& axes, const Tensor& x) {
  AxisList result;
  if (axes.every()) {
    result.resize(static_cast<std::size_t>(x.rank()));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
  for (const std::int64_t axis : axes.list()) {
    const bool of_scalar = graph::is_axis_of_scalar(op, axis, x.shape());
    result.push_back(of_scalar ? 0 : normalize_axis(op, axis, x.shape()));
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    throw ShapeError(fmt::format("{}: an axis of {} appears twice in [{}]", op,
                                 to_string(x.shape()), fmt::join(axes.list(), ", ")));
  }
  if (x.rank() == 0) result.clear();
  return result;
}

Shape without(const Shape& shape, std::span<const std::int64_t> axes, bool keepdim) {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!gone || keepdim) sizes.push_back(gone ? 1 : shape[i]);
  }
  return Shape(sizes);
}

Tensor kept(const Tensor& result, const Tensor& x, const AxisList& axes, bool keepdim,
            SourceLocation place) {
  return keepdim ? graph::reshape_to(result, without(x.shape(), axes, true), place) : result;
}

Tensor reduce(OpId op, const Tensor& x, const AxisList& axes, bool keepdim, DType dtype,
              SourceLocation place) {
  return kept(apply(op, {&x, 1}, axes, without(x.shape(), axes, false), dtype, place), x, axes,
              keepdim, place);
}

// A reduction whose first attribute is a number, followed by the axes.
Tensor reduce_with(OpId op, std::span<const graph::Borrowed> inputs, double number, const Tensor& x,
                   const AxisList& axes, bool keepdim, SourceLocation place) {
  AxisList attrs{std::bit_cast<std::int64_t>(number)};
  attrs.insert(attrs.end(), axes.begin(), axes.end());
  return kept(apply(op, inputs, attrs, without(x.shape(), axes, false), x.dtype(), place), x, axes,
              keepdim, place);
}

void require_elements(const char* op, const Tensor& x, const AxisList& axes) {
  for (const std::int64_t axis : axes) {
    if (x.shape()[static_cast<int>(axis)] == 0) {
      throw ShapeError(
          fmt::format("{}: no elements along axis {} of {}", op, axis, to_string(x.shape())));
    }
  }
}

// Along one axis, the gradient goes to the first of equal elements, whose position is kept. Over
// several axes, equal elements share it.
Tensor extremum(const char* op, OpId over, OpId along, const Tensor& x, const Axes& given,
                bool keepdim, SourceLocation place) {
  graph::require_defined(op, x);
  const AxisList axes = normalized(op, given, x);
  require_elements(op, x, axes);
  if (given.every() || axes.size() != 1) return reduce(over, x, axes, keepdim, x.dtype(), place);
  const Shape shape = without(x.shape(), axes, false), shapes[] = {shape, shape};
  const DType dtypes[] = {x.dtype(), DType::i64};
  return kept(graph::apply_multi(along, {&x, 1}, axes, shapes, dtypes, place)[0], x, axes, keepdim,
              place);
}

Tensor position(const char* op, OpId id, const Tensor& x, std::optional<std::int64_t> axis,
                bool keepdim, SourceLocation place) {
  graph::require_defined(op, x);
  const AxisList axes = normalized(op, axis ? Axes(*axis) : Axes(), x);
  require_elements(op, x, axes);
  return reduce(id, x, axes, keepdim, DType::i64, place);
}

// For booleans, the maximum means any and the minimum means all.
Tensor truth(const char* op, OpId id, const Tensor& x, const Axes& axes, bool keepdim,
             SourceLocation place) {
  graph::require_defined(op, x);
  const Tensor truths = x.dtype() == DType::boolean ? x : x.ne({0, place});
  return reduce(id, truths, normalized(op, axes, x), keepdim, DType::boolean, place);
}

}  // namespace

Tensor Tensor::sum(const Axes& axes, bool keepdim, SourceLocation place) const {
  graph::require_defined("sum", *this);
  return graph::sum_axes(*this, normalized("sum", axes, *this), keepdim, place);
}

Tensor Tensor::mean(const Axes& axes, bool keepdim, SourceLocation place) const {
  graph::require_floating("mean", *this);
  return reduce(OpId::mean, *this, normalized("mean", axes, *this), keepdim, dtype(), place);
}

Tensor Tensor::prod(const Axes& axes, bool keepdim, SourceLocation place) const {
  graph::require_defined("prod", *this);
  const Tensor source = is_floating(dtype()) ? *this : to(DType::i64, place);
  return reduce(OpId::prod, source, normalized("prod", axes, *this), keepdim, source.dtype(),
                place);
}

Tensor Tensor::max(const Axes& axes, bool keepdim, SourceLocation place) const {
  return extremum("max", OpId::max, OpId::max_along, *this, axes, keepdim, place);
}
Tensor Tensor::min(const Axes& axes, bool keepdim, SourceLocation place) const {
  return extremum("min", OpId::min, OpId::min_along, *this, axes, keepdim, place);
}
Tensor Tensor::argmax(std::optional<std::int64_t> axis, bool keepdim, SourceLocation place) const {
  return position("argmax", OpId::argmax, *this, axis, keepdim, place);
}
Tensor Tensor::argmin(std::optional<std::int64_t> axis, bool keepdim, SourceLocation place) const {
  return position("argmin", OpId::argmin, *this, axis, keepdim, place);
}

Tensor Tensor::any(const Axes& axes, bool keepdim, SourceLocation place) const {
  return truth("any", OpId::max, *this, axes, keepdim, place);
}
Tensor Tensor::all(const Axes& axes, bool keepdim, SourceLocation place) const {
  return truth("all", OpId::min, *this, axes, keepdim, place);
}

Tensor Tensor::var(const Axes& axes, VarOptions options, SourceLocation place) const {
  graph::require_floating("var", *this);
  return reduce_with(OpId::var, {{*this}}, options.correction, *this,
                     normalized("var", axes, *this), options.keepdim, place);
}
Tensor Tensor::std(const Axes& axes, VarOptions options, SourceLocation place) const {
  graph::require_floating("std", *this);
  return reduce_with(OpId::std, {{*this}}, options.correction, *this,
                     normalized("std", axes, *this), options.keepdim, place);
}

Tensor Tensor::norm(double p, const Axes& given, bool keepdim, SourceLocation place) const {
  graph::require_floating("norm", *this);
  if (std::isnan(p)) throw ArgumentError("norm: p is not a number");
  const AxisList axes = normalized("norm", given, *this);
  // For these p the norm of no elements is not defined.
  if (p < 0 || std::isinf(p)) require_elements("norm", *this, axes);
  if (p == 0 || p == 1 || p == 2 || std::isinf(p))
    return reduce_with(OpId::norm, {{*this}}, p, *this, axes, keepdim, place);
  const DType inner = dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor power = graph::number(p, inner, device());
  return reduce_with(OpId::norm, {{*this, power}}, p, *this, axes, keepdim, place);
}

Tensor Tensor::logsumexp(const Axes& axes, bool keepdim, SourceLocation place) const {
  graph::require_floating("logsumexp", *this);
  return reduce(OpId::logsumexp, *this, normalized("logsumexp", axes, *this), keepdim, dtype(),
                place);
}

#define VOLTA_REDUCTION(name)                                                          \
  Tensor name(const Tensor& x, const Axes& axes, bool keepdim, SourceLocation place) { \
    return x.name(axes, keepdim, place);                                               \
  }
VOLTA_REDUCTION(sum)
VOLTA_REDUCTION(mean)
VOLTA_REDUCTION(prod)
VOLTA_REDUCTION(max)
VOLTA_REDUCTION(min)
VOLTA_REDUCTION(any)
VOLTA_REDUCTION(all)
VOLTA_REDUCTION(logsumexp)
#undef VOLTA_REDUCTION
Tensor var(const Tensor& x, const Axes& axes, VarOptions options, SourceLocation place) {
  return x.var(axes, options, place);
}
Tensor std(const Tensor& x, const Axes& axes, VarOptions options, SourceLocation place) {
  return x.std(axes, options, place);
}
Tensor norm(const Tensor& x, double p, const Axes& axes, bool keepdim, SourceLocation place) {
  return x.norm(p, axes, keepdim, place);
}
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim,
              SourceLocation place) {
  return x.argmax(axis, keepdim, place);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdim,
              SourceLocation place) {
  return x.argmin(axis, keepdim, place);
}

Tensor softmax(const Tensor& x, std::int64_t axis, SourceLocation place) {
  graph::require_floating("softmax", x);
  if (graph::is_axis_of_scalar("softmax", axis, x.shape()))
    return softmax(x.unsqueeze(0, place), 0, place).squeeze(0, place);
  const std::int64_t at = normalize_axis("softmax", axis, x.shape());
  return apply(OpId::softmax, {&x, 1}, {&at, 1}, x.shape(), x.dtype(), place);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, SourceLocation place) {
  graph::require_floating("log_softmax", x);
  if (graph::is_axis_of_scalar("log_softmax", axis, x.shape()))
    return log_softmax(x.unsqueeze(0, place), 0, place).squeeze(0, place);
  const std::int64_t at = normalize_axis("log_softmax", axis, x.shape());
  return apply(OpId::log_softmax, {&x, 1}, {&at, 1}, x.shape(), x.dtype(), place);
}

}  // namespace volta
