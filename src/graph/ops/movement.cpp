// Movement operations. They have no kernels; they rewrite index expressions.
#include <algorithm>
#include <iterator>
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

// The sizes, with -1 replaced by the size that makes `count` elements.
std::vector<std::int64_t> completed(const char* op, std::span<const std::int64_t> sizes,
                                    std::int64_t count, const std::string& what) {
  std::vector<std::int64_t> result(sizes.begin(), sizes.end());
  const auto unknown = std::find(result.begin(), result.end(), -1);
  if (unknown == result.end()) return result;
  *unknown = 1;
  if (std::find(result.begin(), result.end(), -1) != result.end()) {
    throw ShapeError(
        fmt::format("{}: more than one size of [{}] is -1", op, fmt::join(sizes, ", ")));
  }
  const std::int64_t known = Shape(result, op).numel();
  if (known == 0 || count % known != 0) {
    throw ShapeError(fmt::format("{}: {} does not fit [{}]", op, what, fmt::join(sizes, ", ")));
  }
  *unknown = count / known;
  return result;
}

Tensor reshaped(const char* op, const Tensor& x, const Shape& shape, SourceLocation place) {
  graph::require_defined(op, x);
  if (shape.numel() != x.numel()) {
    throw ShapeError(fmt::format("{}: {} has {} elements, {} has {}", op, to_string(x.shape()),
                                 x.numel(), to_string(shape), shape.numel()));
  }
  if (shape == x.shape()) return x.clone(place);  // a clone, so that the result is a new variable
  return graph::reshape_to(x, shape, place);
}
Tensor reshaped(const char* op, const Tensor& x, std::initializer_list<std::int64_t> sizes,
                SourceLocation place) {
  graph::require_defined(op, x);
  const std::span wanted(sizes.begin(), sizes.size());
  return reshaped(op, x, Shape(completed(op, wanted, x.numel(), to_string(x.shape())), op), place);
}

}  // namespace

Tensor Tensor::reshape(const Shape& shape, SourceLocation place) const {
  return reshaped("reshape", *this, shape, place);
}
Tensor Tensor::reshape(std::initializer_list<std::int64_t> sizes, SourceLocation place) const {
  return reshaped("reshape", *this, sizes, place);
}
Tensor Tensor::view(const Shape& shape, SourceLocation place) const {
  return reshaped("view", *this, shape, place);
}
Tensor Tensor::view(std::initializer_list<std::int64_t> sizes, SourceLocation place) const {
  return reshaped("view", *this, sizes, place);
}

Tensor Tensor::unflatten(std::int64_t axis, std::span<const std::int64_t> sizes,
                         SourceLocation place) const {
  graph::require_defined("unflatten", *this);
  const int at = normalize_axis("unflatten", axis, shape());
  const std::string what = fmt::format("axis {} of {}", axis, to_string(shape()));
  const Shape parts(completed("unflatten", sizes, shape()[at], what), "unflatten");
  if (parts.numel() != shape()[at]) {
    throw ShapeError(fmt::format("unflatten: {} does not fit {}", what, to_string(parts)));
  }
  std::vector<std::int64_t> result(shape().begin(), shape().begin() + at);
  result.insert(result.end(), parts.begin(), parts.end());
  result.insert(result.end(), shape().begin() + at + 1, shape().end());
  return reshape(Shape(result, "unflatten"), place);
}
Tensor Tensor::unflatten(std::int64_t axis, std::initializer_list<std::int64_t> sizes,
                         SourceLocation place) const {
  return unflatten(axis, std::span(sizes.begin(), sizes.size()), place);
}

Tensor Tensor::flatten(std::int64_t first, std::int64_t last, SourceLocation place) const {
  graph::require_defined("flatten", *this);
  if (rank() == 0) return reshape(Shape{1}, place);
  if (rank() == 1) return clone(place);
  const int from = normalize_axis("flatten", first, shape()),
            to = normalize_axis("flatten", last, shape());
  if (from > to) {
    throw ShapeError(
        fmt::format("flatten: axis {} comes after axis {} in {}", first, last, to_string(shape())));
  }
  std::vector<std::int64_t> sizes(shape().begin(), shape().begin() + from);
  sizes.push_back(std::accumulate(shape().begin() + from, shape().begin() + to + 1, std::int64_t{1},
                                  std::multiplies<>()));
  sizes.insert(sizes.end(), shape().begin() + to + 1, shape().end());
  return graph::reshape_to(*this, Shape(sizes), place);
}

Tensor Tensor::permute(std::span<const std::int64_t> order, SourceLocation place) const {
  graph::require_defined("permute", *this);
  std::vector<std::int64_t> axes, sizes;
  for (const std::int64_t axis : order) axes.push_back(normalize_axis("permute", axis, shape()));
  std::vector<std::int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const bool each_once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!each_once || static_cast<int>(axes.size()) != rank()) {
    throw ShapeError(fmt::format("permute: [{}] does not name each axis of {} once",
                                 fmt::join(order, ", "), to_string(shape())));
  }
  for (const std::int64_t axis : axes) sizes.push_back(shape()[static_cast<int>(axis)]);
  return apply(OpId::permute, {this, 1}, axes, Shape(sizes), dtype(), place);
}

Tensor Tensor::permute(std::initializer_list<std::int64_t> order, SourceLocation place) const {
  return permute(std::span(order.begin(), order.size()), place);
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b, SourceLocation place) const {
  graph::require_defined("transpose", *this);
  if (rank() == 0) {
    for (const std::int64_t axis : {a, b}) graph::is_axis_of_scalar("transpose", axis, shape());
    return clone(place);
  }
  const int first = normalize_axis("transpose", a, shape()),
            second = normalize_axis("transpose", b, shape());
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<std::size_t>(first)], order[static_cast<std::size_t>(second)]);
  return permute(order, place);
}

Tensor Tensor::t(SourceLocation place) const {
  graph::require_defined("t", *this);
  if (rank() > 2)
    throw ShapeError(fmt::format("t: expected at most 2 axes, got {}", to_string(shape())));
  return rank() < 2 ? clone(place) : transpose(0, 1, place);
}

Tensor Tensor::expand(const Shape& target, SourceLocation place) const {
  graph::require_defined("expand", *this);
  bool fits = target.rank() >= rank();
  for (int i = 0; fits && i < rank(); ++i) {
    const std::int64_t own = shape()[rank() - 1 - i], wanted = target[target.rank() - 1 - i];
    fits = own == wanted || own == 1;
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("expand: {} does not expand to {}", to_string(shape()), to_string(target)));
  }
  if (target == shape()) return clone(place);  // a clone, so that the result is a new variable
  return graph::expand_to(*this, target, place);
}

Tensor Tensor::expand(std::initializer_list<std::int64_t> sizes, SourceLocation place) const {
  graph::require_defined("expand", *this);
  std::vector<std::int64_t> target(sizes);
  const int added = static_cast<int>(target.size()) - rank();
  for (int i = std::max(added, 0); i < static_cast<int>(target.size()); ++i) {
    std::int64_t& size = target[static_cast<std::size_t>(i)];
    if (size == -1 && added >= 0) size = shape()[i - added];
  }
  if (std::any_of(target.begin(), target.end(), [](std::int64_t size) { return size < 0; })) {
    throw ShapeError(fmt::format("expand: {} does not expand to [{}]", to_string(shape()),
                                 fmt::join(sizes, ", ")));
  }
  return expand(Shape(target, "expand"), place);
}

Tensor Tensor::squeeze(SourceLocation place) const {
  graph::require_defined("squeeze", *this);
  std::vector<std::int64_t> sizes;
  std::copy_if(shape().begin(), shape().end(), std::back_inserter(sizes),
               [](std::int64_t size) { return size != 1; });
  return reshape(Shape(sizes), place);
}
Tensor Tensor::squeeze(std::int64_t axis, SourceLocation place) const {
  graph::require_defined("squeeze", *this);
  if (graph::is_axis_of_scalar("squeeze", axis, shape())) return clone(place);
  const int at = normalize_axis("squeeze", axis, shape());
  return shape()[at] == 1 ? graph::reshape_to(*this, shape().removed(at), place) : clone(place);
}

Tensor Tensor::unsqueeze(std::int64_t axis, SourceLocation place) const {
  graph::require_defined("unsqueeze", *this);
  const std::int64_t at = axis < 0 ? axis + rank() + 1 : axis;
  if (at < 0 || at > rank()) {
    throw ShapeError(
        fmt::format("unsqueeze: axis {} is out of range for {}", axis, to_string(shape())));
  }
  return graph::reshape_to(*this, shape().inserted(static_cast<int>(at), 1, "unsqueeze"), place);
}

Tensor reshape(const Tensor& x, const Shape& shape, SourceLocation place) {
  return x.reshape(shape, place);
}
Tensor flatten(const Tensor& x, std::int64_t first, std::int64_t last, SourceLocation place) {
  return x.flatten(first, last, place);
}
Tensor permute(const Tensor& x, std::span<const std::int64_t> order, SourceLocation place) {
  return x.permute(order, place);
}
Tensor transpose(const Tensor& x, std::int64_t a, std::int64_t b, SourceLocation place) {
  return x.transpose(a, b, place);
}
Tensor squeeze(const Tensor& x, std::int64_t axis, SourceLocation place) {
  return x.squeeze(axis, place);
}
Tensor unsqueeze(const Tensor& x, std::int64_t axis, SourceLocation place) {
  return x.unsqueeze(axis, place);
}

}  // namespace volta
