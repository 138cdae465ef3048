// Sorting and cumulative sums: check the arguments, then record one node each.
#include <fmt/format.h>

#include <limits>

#include "graph/record/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace {

// The first `count` elements along the axis in sorted order.
Sorted sorted(const char* op, const Tensor& x, std::int64_t count, std::int64_t axis,
              bool descending, SourceLocation place) {
  const int last = x.rank() - 1;
  const bool transposed = axis != last;
  const Tensor rows = transposed ? x.transpose(axis, last, place) : x;
  if (rows.shape()[last] > std::numeric_limits<std::int32_t>::max()) {
    throw ShapeError(
        fmt::format("{}: axis {} of {} is longer than 2^31 - 1", op, axis, to_string(x.shape())));
  }
  const Shape found = rows.shape().with(last, count);
  const std::int64_t attrs[] = {count, descending};
  Sorted result;
  if (found.numel() == 0) {
    result.values = rows.narrow(last, 0, count, place);
    result.indices = graph::filled(found, 0, DType::i64, x.device());
  } else {
    const Shape shapes[] = {found, found};
    const DType dtypes[] = {x.dtype(), DType::i64};
    std::vector<Tensor> both =
        graph::apply_multi(OpId::sort, {&rows, 1}, attrs, shapes, dtypes, place);
    result = {std::move(both[0]), std::move(both[1])};
  }
  if (!transposed) return result;
  return {result.values.transpose(axis, last, place), result.indices.transpose(axis, last, place)};
}

Sorted sorted_scalar(const Tensor& x, SourceLocation place) {
  return {x.clone(place), graph::filled({}, 0, DType::i64, x.device())};
}

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis, SourceLocation place) {
  graph::require_defined("cumsum", x);
  const bool of_scalar = graph::is_axis_of_scalar("cumsum", axis, x.shape());
  const std::int64_t at = of_scalar ? 0 : normalize_axis("cumsum", axis, x.shape());
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64;
  const Tensor source = x.dtype() == dtype ? x : x.to(dtype, place);
  if (of_scalar) return source.clone(place);
  const std::int64_t attrs[] = {at, 0};
  return apply(OpId::cumsum, {&source, 1}, attrs, x.shape(), dtype, place);
}
Tensor Tensor::cumsum(std::int64_t axis, SourceLocation place) const {
  return volta::cumsum(*this, axis, place);
}

Sorted sort(const Tensor& x, std::int64_t axis, SortOptions options, SourceLocation place) {
  graph::require_defined("sort", x);
  if (graph::is_axis_of_scalar("sort", axis, x.shape())) return sorted_scalar(x, place);
  const std::int64_t at = normalize_axis("sort", axis, x.shape());
  return sorted("sort", x, x.shape()[static_cast<int>(at)], at, options.descending, place);
}

Tensor argsort(const Tensor& x, std::int64_t axis, SortOptions options, SourceLocation place) {
  graph::require_defined("argsort", x);
  if (graph::is_axis_of_scalar("argsort", axis, x.shape())) return sorted_scalar(x, place).indices;
  const std::int64_t at = normalize_axis("argsort", axis, x.shape());
  const std::int64_t count = x.shape()[static_cast<int>(at)];
  return sorted("argsort", x.detach(), count, at, options.descending, place).indices;
}

Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis, TopKOptions options,
            SourceLocation place) {
  graph::require_defined("topk", x);
  if (graph::is_axis_of_scalar("topk", axis, x.shape())) {
    if (k == 1) return sorted_scalar(x, place);
    throw ArgumentError(fmt::format("topk: {} of the elements of a scalar", k));
  }
  const std::int64_t at = normalize_axis("topk", axis, x.shape());
  if (k < 0 || k > x.shape()[static_cast<int>(at)]) {
    throw ArgumentError(
        fmt::format("topk: {} of the elements along axis {} of {}", k, at, to_string(x.shape())));
  }
  return sorted("topk", x, k, at, options.largest, place);
}

}  // namespace volta
