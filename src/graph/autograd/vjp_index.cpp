// Gradients of indexing: elements that were read get the gradient at their position; values that
// were written get it from the position written to.
#include <numeric>

#include "graph/attributes/selection.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

// `others`, followed by the record's inputs from `first` on.
std::vector<Tensor> with_inputs(Vjp& v, std::vector<Tensor> others, int first) {
  for (int i = first; i < v.inputs(); ++i) others.push_back(v.input(i));
  return others;
}

Tensor zeros_of(const Vjp& v, const Shape& shape, DType dtype) {
  return filled(shape, 0, dtype, v.device(0));
}

// The numbers 0, 1, ... in the given shape.
Tensor numbered(const Shape& shape, Device device, SourceLocation place) {
  return reshape_to(arange(shape.numel(), {.device = device}, place), shape, place);
}

}  // namespace

void index(Vjp& v) {
  const auto inputs = with_inputs(v, {v.gradient()}, 1);
  v.give(0, apply(OpId::index_sum, inputs, v.attrs(), v.shape(0), v.dtype(0), v.place()));
}
void index_sum(Vjp& v) {
  const auto inputs = with_inputs(v, {v.gradient()}, 1);
  v.give(0, apply(OpId::index, inputs, v.attrs(), v.shape(0), v.dtype(0), v.place()));
}

// Overwritten elements get no gradient: those of x, and those of the value that a later write to
// the same position replaced.
void index_put(Vjp& v) {
  const Tensor &g = v.gradient(), &last = v.auxiliary(0);
  std::vector<Shape> shapes;
  for (int i = 2; i < v.inputs(); ++i) shapes.push_back(v.shape(i));
  const Shape& source = v.shape(0);
  const IndexLayout layout(source, v.attr(0), shapes);
  std::vector<std::int64_t> beside(static_cast<std::size_t>(source.rank()), 1), rows;
  for (const std::int64_t axis : layout.indexed) {
    rows.push_back(source[static_cast<int>(axis)]);
    beside[static_cast<std::size_t>(axis)] = rows.back();
  }
  if (v.needs(0)) {
    v.give(0, volta::where(reshape_to(last, Shape(beside), v.place()).lt(0), g, 0));
  }
  if (!v.needs(1)) return;
  const auto indices = with_inputs(v, {g}, 2);
  const Tensor taken = apply(OpId::index, indices, v.attrs(), layout.result, g.dtype(), v.place());
  // If an element is indexed more than once, only the last value written gets the gradient.
  const auto of_last = with_inputs(v, {reshape_to(last, Shape(rows), v.place())}, 2);
  const std::int64_t all = (std::int64_t{1} << rows.size()) - 1;
  const Tensor written = apply(OpId::index, of_last, {&all, 1}, layout.at, DType::i64, v.place());
  const Tensor counts = written.eq(numbered(layout.at, g.device(), v.place()));
  std::vector<std::int64_t> sizes(layout.at.begin(), layout.at.end());
  const auto first = std::find(layout.to_result.begin(), layout.to_result.end(), 0);
  const std::int64_t behind =
      layout.at.rank() == 0 ? 0 : layout.to_result.end() - first - layout.at.rank();
  sizes.insert(sizes.end(), static_cast<std::size_t>(behind), 1);
  v.give(1, volta::where(reshape_to(counts, Shape(sizes), v.place()), taken, 0));
}

// Inputs: x, index. Attributes: axis, and 1 for take_along.
void take_along(Vjp& v) {
  const Tensor inputs[2] = {v.gradient(), v.input(1)};
  v.give(0, apply(OpId::add_along, inputs, v.attrs(), v.shape(0), v.dtype(0), v.place()));
}
void add_along(Vjp& v) {
  const Tensor inputs[2] = {v.gradient(), v.input(1)};
  const OpId op = v.attrs().size() > 1 ? OpId::take_along : OpId::gather_along;
  v.give(0, apply(op, inputs, v.attrs(), v.shape(0), v.dtype(0), v.place()));
}
// Inputs: x, source, index. Attributes: axis.
void put_along(Vjp& v) {
  const Tensor &g = v.gradient(), &index = v.input(2);
  const Tensor last = reshape_to(v.auxiliary(0), v.shape(0), v.place());
  if (v.needs(0)) v.give(0, volta::where(last.lt(0), g, 0));
  if (!v.needs(1)) return;
  const auto along = [&](const Tensor& x) {
    const Tensor inputs[2] = {x, index};
    return apply(OpId::gather_along, inputs, v.attrs(), index.shape(), x.dtype(), v.place());
  };
  const Tensor counts = along(last).eq(numbered(index.shape(), g.device(), v.place()));
  v.give(1, volta::where(counts, along(g), 0));
}
void select_rows(Vjp& v) {
  const Shape& shape = v.shape(0);
  const int axis = static_cast<int>(v.attr(0));
  // The axis is moved to the front, where rows are added, and moved back afterwards.
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + axis, order.begin() + axis + 1);
  std::vector<std::int64_t> back(order.size());
  std::iota(back.begin(), back.end(), 0);
  std::rotate(back.begin(), back.begin() + 1, back.begin() + axis + 1);
  const Tensor inputs[2] = {axis == 0 ? v.gradient() : v.gradient().permute(order, v.place()),
                            v.input(1)};
  std::vector<std::int64_t> sizes;
  for (const std::int64_t from : order) sizes.push_back(shape[static_cast<int>(from)]);
  const Tensor sum =
      apply(OpId::scatter_rows, inputs, {&sizes[0], 1}, Shape(sizes), v.dtype(0), v.place());
  v.give(0, axis == 0 ? sum : sum.permute(back, v.place()));
}

// Inputs: x, position. Attributes: axis.
void select_at(Vjp& v) {
  std::vector<std::int64_t> attrs{0};
  for (int i = 0; i < v.shape(0).rank(); ++i) {
    const bool here = i == v.attr(0);
    attrs.insert(attrs.end(), {here ? -1 : 0, 1, here ? 1 : v.shape(0)[i]});
  }
  const Tensor inputs[3] = {zeros_of(v, v.shape(0), v.dtype(0)), v.gradient(), v.input(1)};
  v.give(0, apply(OpId::put_slice, inputs, attrs, v.shape(0), v.dtype(0), v.place()));
}

// Inputs: x, value, positions... The attributes are those of OpId::put_slice.
void put_slice(Vjp& v) {
  const Tensor& g = v.gradient();
  const int rank = v.output_shape().rank();
  const auto put = [&](const Tensor& x, const Tensor& value) {
    const auto inputs = with_inputs(v, {x, value}, 2);
    return apply(OpId::put_slice, inputs, v.attrs(), v.output_shape(), g.dtype(), v.place());
  };
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(rank), 1);
  if (v.needs(0)) v.give(0, put(g, zeros_of(v, Shape(ones), g.dtype())));
  if (!v.needs(1)) return;
  if (v.attr(0) != 0) {
    v.give(1, put(zeros_of(v, v.output_shape(), g.dtype()), g));
    return;
  }
  Tensor part = g;
  Picks ranges;
  int position = 2;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t start = v.attr(1 + 3 * axis);
    Pick range{Pick::Kind::range, start, v.attr(2 + 3 * axis), v.attr(3 + 3 * axis)};
    if (start < 0) {
      part = apply(OpId::select_at, {part, v.input(position++)}, {axis}, part.shape().with(axis, 1),
                   g.dtype(), v.place());
      range.start = 0;
    }
    ranges.push_back(range);
  }
  v.give(1, view_of(part, ranges, v.place()));
}

void tril(Vjp& v) {
  v.give(0, apply(OpId::tril, {v.gradient(), v.input(1)}, {}, v.shape(0), v.dtype(0), v.place()));
}
void triu(Vjp& v) {
  v.give(0, apply(OpId::triu, {v.gradient(), v.input(1)}, {}, v.shape(0), v.dtype(0), v.place()));
}

// Inputs: x, mask, fill.
void rows_at_true(Vjp& v) {
  if (v.needs(0)) v.give(0, graph::rows_to_true(v.gradient(), v.input(1), v.place()));
}
// Inputs: rows, mask.
void rows_to_true(Vjp& v) {
  v.give(0, graph::rows_at_true(v.gradient(), v.input(1), v.shape(0)[0], 0, v.place()));
}

}  // namespace volta::graph::vjp
