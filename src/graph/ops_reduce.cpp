// Reductions and what is composed of them.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace {

std::vector<std::int64_t> every_axis(const Tensor& x) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::vector<std::int64_t> normalized(const char* op, std::span<const std::int64_t> axes,
                                     const Tensor& x) {
  std::vector<std::int64_t> result;
  for (const std::int64_t axis : axes) result.push_back(normalize_axis(op, axis, x.shape()));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    throw ShapeError(fmt::format("{}: an axis of {} appears twice in [{}]", op,
                                 to_string(x.shape()), fmt::join(axes, ", ")));
  }
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

Tensor reduce(OpId op, const Tensor& x, std::span<const std::int64_t> axes, bool keepdim,
              DType dtype, Place place) {
  const Tensor result = apply(op, {&x, 1}, axes, without(x.shape(), axes, false), dtype, place);
  return keepdim ? graph::reshape_to(result, without(x.shape(), axes, true), place) : result;
}

void require_elements(const char* op, const Tensor& x, std::span<const std::int64_t> axes) {
  for (const std::int64_t axis : axes) {
    if (x.shape()[static_cast<int>(axis)] == 0) {
      throw ShapeError(
          fmt::format("{}: no elements along axis {} of {}", op, axis, to_string(x.shape())));
    }
  }
}

}  // namespace

Tensor Tensor::sum(Place place) const {
  graph::require_defined("sum", *this);
  return graph::sum_axes(*this, every_axis(*this), false, place);
}
Tensor Tensor::sum(std::int64_t axis, bool keepdim, Place place) const {
  return sum({&axis, 1}, keepdim, place);
}
Tensor Tensor::sum(std::initializer_list<std::int64_t> axes, bool keepdim, Place place) const {
  return sum(std::span(axes.begin(), axes.size()), keepdim, place);
}
Tensor Tensor::sum(std::span<const std::int64_t> axes, bool keepdim, Place place) const {
  graph::require_defined("sum", *this);
  return graph::sum_axes(*this, normalized("sum", axes, *this), keepdim, place);
}

Tensor Tensor::mean(Place place) const {
  graph::require_floating("mean", *this);
  return reduce(OpId::mean, *this, every_axis(*this), false, dtype(), place);
}
Tensor Tensor::mean(std::int64_t axis, bool keepdim, Place place) const {
  graph::require_floating("mean", *this);
  return reduce(OpId::mean, *this, normalized("mean", {&axis, 1}, *this), keepdim, dtype(), place);
}

Tensor Tensor::max(Place place) const {
  graph::require_defined("max", *this);
  const auto axes = every_axis(*this);
  require_elements("max", *this, axes);
  return reduce(OpId::max, *this, axes, false, dtype(), place);
}
Tensor Tensor::max(std::int64_t axis, bool keepdim, Place place) const {
  graph::require_defined("max", *this);
  const auto axes = normalized("max", {&axis, 1}, *this);
  require_elements("max", *this, axes);
  return reduce(OpId::max, *this, axes, keepdim, dtype(), place);
}

Tensor Tensor::argmax(Place place) const {
  graph::require_defined("argmax", *this);
  require_elements("argmax", *this, every_axis(*this));
  const Tensor flat = graph::reshape_to(*this, Shape{numel()}, place);
  return flat.argmax(0, false, place);
}
Tensor Tensor::argmax(std::int64_t axis, bool keepdim, Place place) const {
  graph::require_defined("argmax", *this);
  const auto axes = normalized("argmax", {&axis, 1}, *this);
  require_elements("argmax", *this, axes);
  return reduce(OpId::argmax, *this, axes, keepdim, DType::i64, place);
}

Tensor softmax(const Tensor& x, std::int64_t axis, Place place) {
  graph::require_floating("softmax", x);
  const std::int64_t at = normalize_axis("softmax", axis, x.shape());
  return apply(OpId::softmax, {&x, 1}, {&at, 1}, x.shape(), x.dtype(), place);
}

Tensor log_softmax(const Tensor& x, std::int64_t axis, Place place) {
  graph::require_floating("log_softmax", x);
  const std::int64_t at = normalize_axis("log_softmax", axis, x.shape());
  return apply(OpId::log_softmax, {&x, 1}, {&at, 1}, x.shape(), x.dtype(), place);
}

}  // namespace volta
