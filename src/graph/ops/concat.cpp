// Joins, splits and repeats tensors.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/record/apply.h"
#include "graph/record/recorder.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace {

using Numbers = std::vector<std::int64_t>;

std::span<const std::int64_t> span_of(std::initializer_list<std::int64_t> numbers) {
  return {numbers.begin(), numbers.size()};
}

// Operands per kernel: a kernel has at most 24 buffers, and one is for the result.
constexpr std::size_t kOperands = 23;

// Joins tensors of one dtype and device whose shapes fit.
Tensor joined(const char* op, std::span<const Tensor> tensors, int axis, SourceLocation place) {
  if (tensors.size() == 1) return tensors[0];
  if (tensors.size() > kOperands) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < tensors.size(); i += kOperands)
      parts.push_back(
          joined(op, tensors.subspan(i, std::min(kOperands, tensors.size() - i)), axis, place));
    return joined(op, parts, axis, place);
  }
  std::int64_t size = 0;
  for (const Tensor& x : tensors) {
    if (__builtin_add_overflow(size, x.shape()[axis], &size))
      throw ShapeError(fmt::format("{}: axis {} grows past 2^63 - 1", op, axis));
  }
  const std::int64_t attrs[] = {axis};
  return graph::apply(graph::OpId::concat, tensors, attrs, tensors[0].shape().with(axis, size, op),
                      tensors[0].dtype(), place);
}

std::vector<Tensor> agreed(const char* op, std::span<const Tensor> tensors, SourceLocation place) {
  if (tensors.empty()) throw ArgumentError(fmt::format("{}: no tensors", op));
  std::vector<Tensor> result(tensors.begin(), tensors.end());
  for (const Tensor& x : result) graph::require_defined(op, x, "an input");
  DType dtype = result[0].dtype();
  for (const Tensor& x : result) dtype = promote(dtype, x.dtype());
  graph::agree_on_device(op, result, place);
  for (Tensor& x : result) {
    if (x.dtype() != dtype) x = x.to(dtype, place);
  }
  return result;
}

// Views x as [outer, rest], where `rest` begins with the axis, and repeats the second axis.
Tensor repeated(const Tensor& x, int axis, std::int64_t count, SourceLocation place) {
  std::int64_t outer = 1, rest = 1;
  for (int i = 0; i < x.rank(); ++i) (i < axis ? outer : rest) *= x.shape()[i];
  const Tensor one = graph::reshape_to(x, {outer, 1, rest}, place);
  const Tensor all = graph::expand_to(one, {outer, count, rest}, place);
  return graph::reshape_to(all, x.shape().with(axis, x.shape()[axis] * count), place);
}

// The shape with each size multiplied by its count. Throws if a size overflows.
Shape grown(const char* op, const Tensor& x, std::span<const std::int64_t> sizes,
            std::span<const std::int64_t> counts) {
  Numbers result(sizes.begin(), sizes.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (__builtin_mul_overflow(result[i], counts[i], &result[i])) {
      throw ShapeError(fmt::format("{}: {} repetitions of axis {} of {} are past 2^63 - 1", op,
                                   counts[i], i, to_string(x.shape())));
    }
  }
  const Shape shape(result, op);
  graph::require_countable(op, shape, x.dtype());
  return shape;
}

void require_counts(const char* op, std::span<const std::int64_t> counts) {
  for (const std::int64_t count : counts) {
    if (count < 0) throw ArgumentError(fmt::format("{}: {} repetitions", op, count));
  }
}

Tensor repeated_along(const char* op, const Tensor& x, Numbers counts, SourceLocation place) {
  require_counts(op, counts);
  Numbers sizes(counts.size() - static_cast<std::size_t>(x.rank()), 1);
  sizes.insert(sizes.end(), x.shape().begin(), x.shape().end());
  grown(op, x, sizes, counts);
  Tensor result = x.reshape(Shape(sizes, op), place);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 1) result = repeated(result, static_cast<int>(i), counts[i], place);
  }
  return result;
}

}  // namespace

namespace {
Tensor concatenated(const char* op, std::span<const Tensor> tensors, std::int64_t axis,
                    SourceLocation place) {
  std::vector<Tensor> parts = agreed(op, tensors, place);
  // A tensor of shape [0] is ignored, whatever the shape of the others, as in PyTorch.
  const auto is_nothing = [](const Tensor& x) { return x.shape() == Shape{0}; };
  const auto found = std::find_if_not(parts.begin(), parts.end(), is_nothing);
  const Shape first = found == parts.end() ? Shape{0} : found->shape();
  const int at = normalize_axis(op, axis, first);
  for (Tensor& x : parts) {
    if (is_nothing(x)) x = graph::reshape_to(x, first.with(at, 0), place);
  }
  for (const Tensor& x : parts) {
    const bool fits = x.rank() == first.rank() && x.shape().with(at, first[at]) == first;
    if (!fits) {
      throw ShapeError(fmt::format("{}: {} and {} do not fit along axis {}", op, to_string(first),
                                   to_string(x.shape()), axis));
    }
  }
  return parts.size() == 1 ? parts[0].clone(place) : joined(op, parts, at, place);
}
}  // namespace

Tensor concat(std::span<const Tensor> tensors, std::int64_t axis, SourceLocation place) {
  return concatenated("concat", tensors, axis, place);
}
Tensor concat(std::initializer_list<Tensor> tensors, std::int64_t axis, SourceLocation place) {
  return concat(std::span(tensors.begin(), tensors.size()), axis, place);
}
Tensor cat(std::span<const Tensor> tensors, std::int64_t axis, SourceLocation place) {
  return concatenated("cat", tensors, axis, place);
}
Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t axis, SourceLocation place) {
  return cat(std::span(tensors.begin(), tensors.size()), axis, place);
}

Tensor stack(std::span<const Tensor> tensors, std::int64_t axis, SourceLocation place) {
  std::vector<Tensor> parts = agreed("stack", tensors, place);
  const Shape first = parts[0].shape();
  const std::int64_t at = axis < 0 ? axis + first.rank() + 1 : axis;
  if (at < 0 || at > first.rank()) {
    throw ShapeError(fmt::format("stack: axis {} is out of range for {}", axis, to_string(first)));
  }
  for (Tensor& x : parts) {
    if (x.shape() != first) {
      throw ShapeError(
          fmt::format("stack: {} and {} differ in shape", to_string(first), to_string(x.shape())));
    }
    x = graph::reshape_to(x, first.inserted(static_cast<int>(at), 1, "stack"), place);
  }
  return joined("stack", parts, static_cast<int>(at), place);
}
Tensor stack(std::initializer_list<Tensor> tensors, std::int64_t axis, SourceLocation place) {
  return stack(std::span(tensors.begin(), tensors.size()), axis, place);
}

std::vector<Tensor> Tensor::split(std::span<const std::int64_t> sizes, std::int64_t axis,
                                  SourceLocation place) const {
  graph::require_defined("split", *this);
  const int at = normalize_axis("split", axis, shape());
  std::int64_t left = shape()[at];
  const bool fits = std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t size) {
    const bool within = size >= 0 && size <= left;
    left -= within ? size : 0;
    return within;
  });
  if (!fits || left != 0) {
    throw ShapeError(fmt::format("split: sizes [{}] do not add up to axis {} of {}",
                                 fmt::join(sizes, ", "), axis, to_string(shape())));
  }
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(narrow(at, start, size, place));
    start += size;
  }
  return parts;
}
std::vector<Tensor> Tensor::split(std::initializer_list<std::int64_t> sizes, std::int64_t axis,
                                  SourceLocation place) const {
  return split(span_of(sizes), axis, place);
}
std::vector<Tensor> Tensor::split(std::int64_t size, std::int64_t axis,
                                  SourceLocation place) const {
  graph::require_defined("split", *this);
  const int at = normalize_axis("split", axis, shape());
  const std::int64_t whole = shape()[at];
  if (size < 0 || (size == 0 && whole > 0)) {
    throw ShapeError(
        fmt::format("split: parts of {} along axis {} of {}", size, axis, to_string(shape())));
  }
  Numbers sizes;
  for (std::int64_t start = 0; start < whole; start += size)
    sizes.push_back(std::min(size, whole - start));
  if (whole == 0) sizes.push_back(0);
  return split(sizes, at, place);
}

std::vector<Tensor> Tensor::chunk(std::int64_t count, std::int64_t axis,
                                  SourceLocation place) const {
  graph::require_defined("chunk", *this);
  const int at = normalize_axis("chunk", axis, shape());
  if (count < 1) throw ArgumentError(fmt::format("chunk: {} parts", count));
  const std::int64_t whole = shape()[at];
  // All parts of an empty axis are empty, as in PyTorch.
  if (whole == 0) return split(Numbers(static_cast<std::size_t>(count), 0), at, place);
  return split((whole - 1) / count + 1, at, place);
}

Tensor Tensor::repeat(std::span<const std::int64_t> counts, SourceLocation place) const {
  graph::require_defined("repeat", *this);
  if (counts.size() < static_cast<std::size_t>(rank())) {
    throw ShapeError(fmt::format("repeat: {} counts for {}", counts.size(), to_string(shape())));
  }
  return repeated_along("repeat", *this, Numbers(counts.begin(), counts.end()), place);
}
Tensor Tensor::repeat(std::initializer_list<std::int64_t> counts, SourceLocation place) const {
  return repeat(span_of(counts), place);
}

Tensor Tensor::tile(std::span<const std::int64_t> counts, SourceLocation place) const {
  graph::require_defined("tile", *this);
  const std::size_t missing =
      static_cast<std::size_t>(rank()) - std::min(counts.size(), static_cast<std::size_t>(rank()));
  Numbers all(missing, 1);
  all.insert(all.end(), counts.begin(), counts.end());
  return repeated_along("tile", *this, std::move(all), place);
}
Tensor Tensor::tile(std::initializer_list<std::int64_t> counts, SourceLocation place) const {
  return tile(span_of(counts), place);
}

Tensor Tensor::repeat_interleave(std::int64_t count, std::optional<std::int64_t> axis,
                                 SourceLocation place) const {
  graph::require_defined("repeat_interleave", *this);
  require_counts("repeat_interleave", {&count, 1});
  if (!axis) return flatten(0, -1, place).repeat_interleave(count, 0, place);
  const int at = normalize_axis("repeat_interleave", *axis, shape());
  Numbers counts(shape().sizes().size(), 1);
  counts[static_cast<std::size_t>(at)] = count;
  const Shape result = grown("repeat_interleave", *this, shape().sizes(), counts);
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < rank(); ++i) (i <= at ? outer : inner) *= shape()[i];
  const Tensor one = graph::reshape_to(*this, {outer, 1, inner}, place);
  const Tensor all = graph::expand_to(one, {outer, count, inner}, place);
  return all.reshape(result, place);
}

Tensor Tensor::roll(std::span<const std::int64_t> shifts, std::span<const std::int64_t> axes,
                    SourceLocation place) const {
  graph::require_defined("roll", *this);
  if (shifts.size() != axes.size()) {
    throw ArgumentError(fmt::format("roll: {} shifts for {} axes", shifts.size(), axes.size()));
  }
  Tensor result = *this;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int at = normalize_axis("roll", axes[i], shape());
    const std::int64_t size = shape()[at];
    if (size == 0) continue;
    const std::int64_t shift = (shifts[i] % size + size) % size;
    if (shift == 0) continue;
    const Tensor parts[] = {result.narrow(at, size - shift, shift, place),
                            result.narrow(at, 0, size - shift, place)};
    result = joined("roll", parts, at, place);
  }
  return graph::node_of(result) == graph::node_of(*this) ? clone(place) : result;
}
Tensor Tensor::roll(std::initializer_list<std::int64_t> shifts,
                    std::initializer_list<std::int64_t> axes, SourceLocation place) const {
  return roll(span_of(shifts), span_of(axes), place);
}
Tensor Tensor::roll(std::int64_t shift, std::int64_t axis, SourceLocation place) const {
  return roll({&shift, 1}, {&axis, 1}, place);
}
Tensor Tensor::roll(std::int64_t shift, SourceLocation place) const {
  graph::require_defined("roll", *this);
  return flatten(0, -1, place).roll(shift, 0, place).reshape(shape(), place);
}

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis, SourceLocation place) {
  return x.roll(shift, axis, place);
}
Tensor tile(const Tensor& x, std::span<const std::int64_t> counts, SourceLocation place) {
  return x.tile(counts, place);
}
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis,
                          SourceLocation place) {
  return x.split(size, axis, place);
}
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis,
                          SourceLocation place) {
  return x.chunk(count, axis, place);
}

}  // namespace volta
