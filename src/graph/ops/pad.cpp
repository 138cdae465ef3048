// Padding. A constant border is a primitive; reflected and replicated borders are concatenated from
// parts. A negative amount crops.
#include <algorithm>

#include <fmt/format.h>

#include "core/convert.h"
#include "graph/record/apply.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace {

using Amounts = std::span<const std::int64_t>;

void require_amounts(const Tensor& x, Amounts before, Amounts after) {
  graph::require_defined("pad", x);
  const std::size_t rank = static_cast<std::size_t>(x.rank());
  if (before.size() != rank || after.size() != rank) {
    throw ShapeError(fmt::format("pad: {} and {} amounts for {}", before.size(), after.size(),
                                 to_string(x.shape())));
  }
}

// Crops x, which is `input` with or without a border, by the negative amounts.
Tensor cropped(const Tensor& x, const Shape& input, Amounts before, Amounts after,
               SourceLocation place) {
  Tensor result = x;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t first = std::min<std::int64_t>(before[static_cast<std::size_t>(i)], 0),
                       last = std::min<std::int64_t>(after[static_cast<std::size_t>(i)], 0);
    if (first == 0 && last == 0) continue;
    const std::int64_t size = x.shape()[i];
    if (first < -size || last < -size - first) {
      throw ShapeError(fmt::format("pad: {} and {} take more off axis {} of {} than there is",
                                   before[static_cast<std::size_t>(i)],
                                   after[static_cast<std::size_t>(i)], i, to_string(input)));
    }
    result = result.narrow(i, -first, size + first + last, place);
  }
  return result;
}

// `count` border elements next to the first or last element of the axis.
Tensor border(const Tensor& x, int axis, std::int64_t count, bool last, PadMode mode,
              SourceLocation place) {
  const std::int64_t size = x.shape()[axis];
  if (mode == PadMode::replicate) {
    const Tensor edge = x.narrow(axis, last ? size - 1 : 0, 1, place);
    return edge.expand(x.shape().with(axis, count, "pad"), place);
  }
  return x.narrow(axis, last ? size - 1 - count : 1, count, place).flip(axis, place);
}

}  // namespace

Tensor pad(const Tensor& given, std::span<const std::int64_t> before,
           std::span<const std::int64_t> after, Scalar value, SourceLocation place) {
  require_amounts(given, before, after);
  Tensor x = cropped(given, given.shape(), before, after, place);
  const std::size_t rank = static_cast<std::size_t>(x.rank());
  std::vector<std::int64_t> sizes, attrs;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t first = std::max<std::int64_t>(before[i], 0),
                       last = std::max<std::int64_t>(after[i], 0);
    std::int64_t size = x.shape()[static_cast<int>(i)];
    if (__builtin_add_overflow(size, first, &size) || __builtin_add_overflow(size, last, &size)) {
      throw ShapeError(
          fmt::format("pad: axis {} of {} grows past 2^63 - 1", i, to_string(given.shape())));
    }
    sizes.push_back(size);
    attrs.push_back(first);
  }
  const Shape shape(sizes, "pad");
  attrs.insert(attrs.end(), shape.begin(), shape.end());
  require_fits("pad", value, x.dtype());
  const bool only_cropped = shape == x.shape() && x.shape() != given.shape();
  if (only_cropped) return x;
  const Tensor inputs[2] = {x, graph::number(value, x.dtype(), x.device())};
  return graph::apply(graph::OpId::pad, inputs, attrs, shape, x.dtype(), place);
}

Tensor pad(const Tensor& x, std::span<const std::int64_t> before,
           std::span<const std::int64_t> after, PadOptions options, SourceLocation place) {
  if (options.mode == PadMode::constant) return pad(x, before, after, options.value, place);
  require_amounts(x, before, after);
  const bool mirrored = options.mode == PadMode::reflect;
  Tensor result = x;
  bool changed = false;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t first = before[static_cast<std::size_t>(i)],
                       last = after[static_cast<std::size_t>(i)], size = x.shape()[i];
    changed = changed || first != 0 || last != 0;
    if (first <= 0 && last <= 0) continue;
    const std::int64_t most = mirrored ? size - 1 : size == 0 ? 0 : std::max(first, last);
    if (std::max(first, last) > most) {
      throw ShapeError(fmt::format("pad: {} elements beside axis {} of {} cannot be {}",
                                   std::max(first, last), i, to_string(x.shape()),
                                   mirrored ? "mirrored" : "repeated"));
    }
    Tensor parts[3];
    std::size_t count = 0;
    if (first > 0) parts[count++] = border(result, i, first, false, options.mode, place);
    parts[count++] = result;
    if (last > 0) parts[count++] = border(result, i, last, true, options.mode, place);
    result = concat({parts, count}, i, place);
  }
  result = cropped(result, x.shape(), before, after, place);
  return changed ? result : result.clone(place);
}

Tensor Tensor::pad(std::initializer_list<std::int64_t> before,
                   std::initializer_list<std::int64_t> after, PadOptions options,
                   SourceLocation place) const {
  return volta::pad(*this, std::span(before.begin(), before.size()),
                    std::span(after.begin(), after.size()), options, place);
}

}  // namespace volta
