// Reads and writes at integer indices and at masks: checks the arguments, then records one node
// each.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/convert.h"
#include "graph/attributes/selection.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/recorder.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace graph {

std::int64_t count_true(const Tensor& mask, SourceLocation place) {
  return mask.sum({}, false, place).item<std::int64_t>();
}

Tensor true_positions(const Tensor& mask, std::int64_t size, SourceLocation place) {
  return apply(OpId::true_positions, {mask}, {size}, Shape{size}, DType::i64, place);
}

Tensor rows_at_true(const Tensor& x, const Tensor& mask, std::int64_t size, Scalar fill,
                    SourceLocation place) {
  return apply(OpId::rows_at_true, {x, mask, number(fill, x.dtype(), x.device())}, {size},
               Shape{size, x.shape()[1]}, x.dtype(), place);
}

Tensor rows_to_true(const Tensor& rows, const Tensor& mask, SourceLocation place) {
  return apply(OpId::rows_to_true, {rows, mask}, {}, Shape{mask.shape()[0], rows.shape()[1]},
               rows.dtype(), place);
}

}  // namespace graph

namespace {

Tensor integer_index(const char* op, const Tensor& index, SourceLocation place) {
  graph::require_defined(op, index, "the index");
  if (!is_integral(index.dtype()) || index.dtype() == DType::boolean)
    graph::throw_dtype(op, index.dtype(), "integer indices");
  return index.dtype() == DType::u8 ? index.to(DType::i64, place) : index;
}

void require_elements(const char* op, const Tensor& x, int axis, const Tensor& index) {
  if (x.shape()[axis] == 0 && index.numel() > 0) {
    throw ShapeError(
        fmt::format("{}: no elements along axis {} of {}", op, axis, to_string(x.shape())));
  }
}

void require_same_dtype(const char* op, const Tensor& x, const Tensor& source) {
  if (source.dtype() != x.dtype()) {
    throw DTypeError(fmt::format("{}: input is {}, source is {}", op, name_of(x.dtype()),
                                 name_of(source.dtype())));
  }
}

// Treats a scalar as an axis of one element, as PyTorch does here.
Tensor with_axis(const Tensor& x, SourceLocation place) {
  return x.rank() == 0 ? graph::reshape_to(x, Shape{1}, place) : x;
}

// Whether the index has the rank of x and, on all axes except `at`, sizes no larger than x's.
bool fits_along(const Tensor& x, int at, const Tensor& index) {
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == at || index.shape()[i] <= x.shape()[i];
  return fits;
}

// Whether the index has no elements and a shape that does not fit, which PyTorch allows.
bool names_nothing(const Tensor& x, int at, const Tensor& index) {
  return index.numel() == 0 && !fits_along(x, at, index);
}

// The normalised axis. Throws if the index does not fit x along it.
int axis_along(const char* op, const Tensor& x, std::int64_t axis, const Tensor& index) {
  const int at = normalize_axis(op, axis, x.shape());
  if (!fits_along(x, at, index)) {
    throw ShapeError(fmt::format("{}: indices {} do not fit {} along axis {}", op,
                                 to_string(index.shape()), to_string(x.shape()), at));
  }
  require_elements(op, x, at, index);
  return at;
}

// The leading part of the source that has the shape of the index.
Tensor beside(const char* op, const Tensor& index, Tensor source, SourceLocation place) {
  bool fits = source.rank() == index.rank();
  for (int i = 0; fits && i < index.rank(); ++i) fits = index.shape()[i] <= source.shape()[i];
  if (!fits) {
    throw ShapeError(fmt::format("{}: indices {} do not fit the source {}", op,
                                 to_string(index.shape()), to_string(source.shape())));
  }
  for (int i = 0; i < index.rank(); ++i) {
    if (source.shape()[i] != index.shape()[i])
      source = source.narrow(i, 0, index.shape()[i], place);
  }
  return source;
}

void require_addable(const char* op, const Tensor& x) {
  if (x.dtype() == DType::boolean)
    graph::throw_dtype(op, x.dtype(), "a floating-point or integer tensor");
}

void require_mask(const char* op, const Tensor& mask) {
  graph::require_defined(op, mask, "the mask");
  if (mask.dtype() != DType::boolean) graph::throw_dtype(op, mask.dtype(), "a bool mask");
}

void require_size(const char* op, std::int64_t size) {
  if (size < 0) throw ArgumentError(fmt::format("{}: a size of {}", op, size));
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index, SourceLocation place) {
  graph::require_defined("index_select", x);
  Tensor inputs[2] = {with_axis(x, place), integer_index("index_select", index, place)};
  const std::int64_t at = normalize_axis("index_select", axis, inputs[0].shape());
  if (index.rank() > 1) {
    throw ShapeError(fmt::format("index_select: indices {} need 1 axis", to_string(index.shape())));
  }
  inputs[1] = with_axis(inputs[1], place);
  require_elements("index_select", inputs[0], static_cast<int>(at), index);
  graph::agree_on_device("index_select", inputs, place);
  if (x.rank() == 0 && index.numel() != 1) {
    throw ShapeError(fmt::format("index_select: indices {} of a scalar", to_string(index.shape())));
  }
  const Shape shape = inputs[0].shape().with(static_cast<int>(at), index.numel(), "index_select");
  const Tensor taken = apply(OpId::select_rows, inputs, {&at, 1}, shape, x.dtype(), place);
  return x.rank() == 0 ? graph::reshape_to(taken, Shape{}, place) : taken;
}

Tensor index_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                 SourceLocation place) {
  graph::require_defined("index_add", x);
  graph::require_defined("index_add", source, "the source");
  if (x.rank() == 0) {
    return graph::reshape_to(
        index_add(with_axis(x, place), axis, index, with_axis(source, place), place), Shape{},
        place);
  }
  Tensor inputs[3] = {source, with_axis(integer_index("index_add", index, place), place), x};
  const int at = normalize_axis("index_add", axis, x.shape());
  if (index.rank() > 1 || source.shape() != x.shape().with(at, index.numel())) {
    throw ShapeError(fmt::format("index_add: {} at indices {} does not go into {} along axis {}",
                                 to_string(source.shape()), to_string(index.shape()),
                                 to_string(x.shape()), at));
  }
  require_addable("index_add", x);
  require_same_dtype("index_add", x, source);
  require_elements("index_add", x, at, index);
  graph::agree_on_device("index_add", inputs, place);
  // The axis is moved to the front, where rows are added, and moved back afterwards.
  std::vector<std::int64_t> order(static_cast<std::size_t>(x.rank())), back(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::iota(back.begin(), back.end(), 0);
  std::rotate(order.begin(), order.begin() + at, order.begin() + at + 1);
  std::rotate(back.begin(), back.begin() + 1, back.begin() + at + 1);
  if (at != 0) inputs[0] = inputs[0].permute(order, place);
  const std::int64_t rows = x.shape()[at];
  Tensor sums = apply(OpId::scatter_rows, {inputs, 2}, {&rows, 1}, inputs[0].shape().with(0, rows),
                      x.dtype(), place);
  if (at != 0) sums = sums.permute(back, place);
  return graph::binary(OpId::add, {inputs[2], place}, {sums, place});
}

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index, SourceLocation place) {
  graph::require_defined("gather", x);
  const Tensor at_axis = integer_index("gather", index, place);
  Tensor inputs[2] = {with_axis(x, place), with_axis(at_axis, place)};
  if (names_nothing(inputs[0], normalize_axis("gather", axis, inputs[0].shape()), inputs[1])) {
    graph::agree_on_device("gather", inputs, place);
    const Tensor none = inputs[0].flatten(0, -1, place).narrow(0, 0, 0, place);
    return graph::reshape_to(none, index.shape(), place);
  }
  const std::int64_t at = axis_along("gather", inputs[0], axis, inputs[1]);
  graph::agree_on_device("gather", inputs, place);
  const Tensor taken =
      apply(OpId::gather_along, inputs, {&at, 1}, inputs[1].shape(), x.dtype(), place);
  return graph::reshape_to(taken, index.shape(), place);
}

Tensor take_along_axis(const Tensor& x, const Tensor& index, std::int64_t axis,
                       SourceLocation place) {
  graph::require_defined("take_along_axis", x);
  Tensor inputs[2] = {x, integer_index("take_along_axis", index, place)};
  const int at = normalize_axis("take_along_axis", axis, x.shape());
  // The other axes of x and the index broadcast against each other.
  bool fits = index.rank() == x.rank();
  Shape source = x.shape(), result = index.shape();
  for (int i = 0; fits && i < x.rank(); ++i) {
    if (i == at || source[i] == result[i]) continue;
    fits = source[i] == 1 || result[i] == 1;
    const std::int64_t size = source[i] == 1 ? result[i] : source[i];
    source = source.with(i, size, "take_along_axis");
    result = result.with(i, size, "take_along_axis");
  }
  if (!fits) {
    throw ShapeError(fmt::format("take_along_axis: indices {} do not fit {} along axis {}",
                                 to_string(index.shape()), to_string(x.shape()), at));
  }
  require_elements("take_along_axis", x, at, index);
  graph::agree_on_device("take_along_axis", inputs, place);
  if (source != x.shape()) inputs[0] = graph::expand_to(inputs[0], source, place);
  if (result != index.shape()) inputs[1] = graph::expand_to(inputs[1], result, place);
  const std::int64_t attrs[] = {at, 1};  // 1: indices may be negative
  return apply(OpId::take_along, inputs, attrs, result, x.dtype(), place);
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& index, const Operand& source) {
  const SourceLocation place = source.place();
  graph::require_defined("scatter", x);
  const Tensor at_axis = with_axis(integer_index("scatter", index, place), place);
  const Tensor into = with_axis(x, place);
  if (names_nothing(into, normalize_axis("scatter", axis, into.shape()), at_axis))
    return x.clone(place);
  const std::int64_t at = axis_along("scatter", into, axis, at_axis);
  Tensor values;
  if (source.is_scalar()) {
    require_fits("scatter", source.scalar(), x.dtype());
    values = graph::number(source.scalar(), x.dtype(), x.device());
  } else {
    graph::require_defined("scatter", source.tensor(), "the source");
    require_same_dtype("scatter", x, source.tensor());
    values = beside("scatter", at_axis, with_axis(source.tensor(), place), place);
  }
  Tensor inputs[3] = {into, values, at_axis};
  graph::agree_on_device("scatter", inputs, place);
  const Shape shapes[] = {into.shape(), Shape{into.numel()}};
  const DType dtypes[] = {x.dtype(), DType::i64};
  const Tensor result =
      graph::apply_multi(OpId::put_along, inputs, {&at, 1}, shapes, dtypes, place)[0];
  return graph::reshape_to(result, x.shape(), place);
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source,
                   SourceLocation place) {
  graph::require_defined("scatter_add", x);
  graph::require_defined("scatter_add", source, "the source");
  const Tensor at_axis = with_axis(integer_index("scatter_add", index, place), place);
  const Tensor into = with_axis(x, place);
  if (names_nothing(into, normalize_axis("scatter_add", axis, into.shape()), at_axis))
    return x.clone(place);
  const std::int64_t at = axis_along("scatter_add", into, axis, at_axis);
  require_addable("scatter_add", x);
  if (const auto wanted = graph::autocast_dtype(graph::AutocastRule::widest, {&x, &source})) {
    return scatter_add(graph::autocast(x, *wanted, place), axis, index,
                       graph::autocast(source, *wanted, place), place);
  }
  require_same_dtype("scatter_add", x, source);
  Tensor inputs[3] = {beside("scatter_add", at_axis, with_axis(source, place), place), at_axis,
                      into};
  graph::agree_on_device("scatter_add", inputs, place);
  const Tensor sums = apply(OpId::add_along, {inputs, 2}, {&at, 1}, into.shape(), x.dtype(), place);
  const Tensor result = graph::binary(OpId::add, {inputs[2], place}, {sums, place});
  return graph::reshape_to(result, x.shape(), place);
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value) {
  graph::require_defined("masked_fill", x);
  require_mask("masked_fill", mask);
  broadcast_shapes("masked_fill", x.shape(), mask.shape());
  if (value.is_scalar()) {
    require_fits("masked_fill", value.scalar(), x.dtype());
    const Tensor number = graph::number(value.scalar(), x.dtype(), x.device());
    return where(mask, Operand(number, value.place()), Operand(x, value.place()));
  }
  graph::require_defined("masked_fill", value.tensor(), "the value");
  if (value.tensor().numel() != 1) {
    throw ShapeError(fmt::format("masked_fill: expected a value of one element, got {}",
                                 to_string(value.tensor().shape())));
  }
  const Tensor one =
      graph::reshape_to(value.tensor().to(x.dtype(), value.place()), Shape{}, value.place());
  return where(mask, Operand(one, value.place()), Operand(x, value.place()));
}

namespace {

// Broadcasts x and the mask, then flattens them to [n, 1] and [n].
std::pair<Tensor, Tensor> flattened(const Tensor& x, const Tensor& mask, SourceLocation place) {
  graph::require_defined("masked_select", x);
  require_mask("masked_select", mask);
  const Shape shape = broadcast_shapes("masked_select", x.shape(), mask.shape());
  Tensor sides[2] = {x, mask};
  graph::agree_on_device("masked_select", sides, place);
  const auto over = [&](const Tensor& side, const Shape& flat) {
    return graph::reshape_to(graph::expand_to(side, shape, place), flat, place);
  };
  return {over(sides[0], {shape.numel(), 1}), over(sides[1], {shape.numel()})};
}

}  // namespace

Tensor masked_select(const Tensor& x, const Tensor& mask, FixedSize options, SourceLocation place) {
  const auto [values, flags] = flattened(x, mask, place);
  require_size("masked_select", options.size);
  require_fits("masked_select", options.fill, x.dtype());
  const Tensor rows = graph::rows_at_true(values, flags, options.size, options.fill, place);
  return graph::reshape_to(rows, Shape{options.size}, place);
}

Tensor masked_select(const Tensor& x, const Tensor& mask, SourceLocation place) {
  const auto [values, flags] = flattened(x, mask, place);
  const std::int64_t count = graph::count_true(flags, place);
  return graph::reshape_to(graph::rows_at_true(values, flags, count, 0, place), Shape{count},
                           place);
}

namespace {

Tensor nonzero_of(const Tensor& x, const Tensor& flags, std::int64_t size, Scalar fill,
                  SourceLocation place) {
  std::vector<std::int64_t> attrs{size};
  attrs.insert(attrs.end(), x.shape().begin(), x.shape().end());
  const Tensor inputs[2] = {flags, graph::number(fill, DType::i64, x.device())};
  const std::int64_t sizes[] = {size, x.rank()};
  return apply(OpId::nonzero, inputs, attrs, Shape(sizes, "nonzero"), DType::i64, place);
}

Tensor flags_of(const Tensor& x, SourceLocation place) {
  graph::require_defined("nonzero", x);
  const Tensor flags = x.dtype() == DType::boolean ? x : x.ne(0);
  return graph::reshape_to(flags, Shape{x.numel()}, place);
}

}  // namespace

Tensor nonzero(const Tensor& x, FixedSize options, SourceLocation place) {
  const Tensor flags = flags_of(x, place);
  require_size("nonzero", options.size);
  require_fits("nonzero", options.fill, DType::i64);
  return nonzero_of(x, flags, options.size, options.fill, place);
}

Tensor nonzero(const Tensor& x, SourceLocation place) {
  const Tensor flags = flags_of(x, place);
  return nonzero_of(x, flags, graph::count_true(flags, place), 0, place);
}

Tensor one_hot(const Tensor& index, std::int64_t classes, SourceLocation place) {
  Tensor at = integer_index("one_hot", index, place);
  if (classes == -1) {
    if (index.numel() == 0) throw ArgumentError("one_hot: no indices to count the classes by");
    const auto largest = at.max({}, false, place).item<std::int64_t>();
    if (largest < 0)
      throw ArgumentError(fmt::format("one_hot: the largest index is {}: no classes", largest));
    if (largest == std::numeric_limits<std::int64_t>::max())
      throw ArgumentError(fmt::format("one_hot: an index of {}", largest));
    classes = largest + 1;
  }
  if (classes < 1) throw ArgumentError(fmt::format("one_hot: {} classes", classes));
  const Shape shape = index.shape().inserted(index.rank(), classes, "one_hot");
  graph::require_countable("one_hot", shape, DType::i64);
  return apply(OpId::one_hot, {&at, 1}, {&classes, 1}, shape, DType::i64, place);
}

namespace {
Tensor triangle(const char* name, OpId op, const Tensor& x, std::int64_t diagonal,
                SourceLocation place) {
  graph::require_defined(name, x);
  if (x.rank() < 2) {
    throw ShapeError(fmt::format("{}: expected matrices, got {}", name, to_string(x.shape())));
  }
  return apply(op, {x, graph::argument(diagonal, x.device())}, {}, x.shape(), x.dtype(), place);
}
}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal, SourceLocation place) {
  return triangle("tril", OpId::tril, x, diagonal, place);
}
Tensor triu(const Tensor& x, std::int64_t diagonal, SourceLocation place) {
  return triangle("triu", OpId::triu, x, diagonal, place);
}

}  // namespace volta
