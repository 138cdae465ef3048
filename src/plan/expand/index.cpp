// Indexing in primitives: reads and writes at integer tensors, along an axis, in regions, and where
// a mask is true.
#include "graph/attributes/selection.h"
#include "plan/expand/rules.h"
#include "plan/expand/scatter.h"

namespace volta::graph::expand {

using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

namespace {

Expr size(Lowering& l, Extent number) { return l.size(number, DType::i64); }
Expr zero(Lowering& l, DType dtype) { return l.constant(0, dtype); }
Expr below(Lowering& l, Expr a, Expr b) { return l.binary(ScalarOp::lt, a, b); }

Expr flat(Lowering& l, Expr x) { return l.reshape(x, {x.shape().numel()}); }

// The elements of x with these element numbers. Numbers that are known to be valid are still
// Bounded, because the kernel language requires it.
Expr elements_at(Lowering& l, Expr x, Expr numbers, int site) {
  return l.gather(flat(l, x), l.bounded(numbers, x.shape().numel(), site));
}

// ---- Integer tensors.

// The node's integer tensors, from input `first` on, broadcast over the axes of `source`.
class Indices {
 public:
  Indices(Lowering& l, const Shape& source, int first)
      : layout(source.fixed(), l.attrs()[0], shapes(l, first)), site(l.next_site()), l_(l) {
    for (std::size_t i = 0; i < layout.indexed.size(); ++i) {
      const Extent high = source[static_cast<int>(layout.indexed[i])];
      const Expr index = l.cast(l.in(first + static_cast<int>(i)), DType::i64);
      const Expr wrapped =
          l.where(below(l, index, zero(l, DType::i64)), index + size(l, high), index);
      each_.push_back(l.expand(l.bounded(wrapped, high, site), Shape(layout.at)));
    }
  }

  // The row numbers over the indexed axes alone: [count].
  Expr rows(const Shape& source) const {
    Expr number = each_[0];
    for (std::size_t i = 1; i < each_.size(); ++i)
      number = number * size(l_, source[static_cast<int>(layout.indexed[i])]) + each_[i];
    number = l_.reshape(number, {layout.count});
    return l_.bounded(number, layout.rows, site);
  }

  // The element numbers over all axes: [at..., kept...].
  Expr elements(const Shape& source) const {
    const plan::PerAxis<Extent> strides = row_major_strides(source);
    const auto stride = [&](plan::AxisId axis) { return size(l_, strides[axis]); };
    Expr number = each_[0] * stride(layout.indexed[0]);
    for (std::size_t i = 1; i < each_.size(); ++i)
      number = number + each_[i] * stride(layout.indexed[i]);
    std::vector<Extent> sizes(layout.at.begin(), layout.at.end());
    sizes.resize(layout.by_index.sizes().size(), 1);
    number = l_.reshape(number, Shape(sizes));
    for (std::size_t i = 0; i < layout.kept.size(); ++i) {
      const int axis = layout.at.rank() + static_cast<int>(i);
      number = number + l_.iota(Shape(layout.by_index), axis) * stride(layout.kept[i]);
    }
    return l_.expand(number, Shape(layout.by_index));
  }

  // Permutes [at..., kept...] to the order of the result, and back.
  Expr to_result(Expr x) const { return l_.permute(x, layout.to_result); }
  Expr from_result(Expr x) const { return l_.permute(x, inverse(layout.to_result)); }
  // Permutes [indexed..., kept...] to the order of the source, and back.
  Expr to_source(Expr x) const { return l_.permute(x, inverse(layout.rows_first)); }
  Expr from_source(Expr x) const { return l_.permute(x, layout.rows_first); }
  bool rows_lead() const { return layout.indexed.back() + 1 == std::ssize(layout.indexed); }
  // Checks the indices although the result has no elements.
  Expr looked_at(const Shape& source) const { return l_.checked_nothing(rows(source)); }

  const IndexLayout layout;
  const int site;

 private:
  static std::vector<volta::Shape> shapes(Lowering& l, int first) {
    std::vector<volta::Shape> result;
    for (int i = first; i < l.inputs(); ++i) result.push_back(l.in(i).shape().fixed());
    return result;
  }
  static plan::PerAxis<std::int64_t> inverse(const std::vector<std::int64_t>& order) {
    plan::PerAxis<std::int64_t> result(order.size());
    std::int64_t place = 0;
    for (const plan::AxisId axis : order) result[axis] = place++;
    return result;
  }

  Lowering& l_;
  std::vector<Expr> each_;
};

}  // namespace

// Inputs: x, indices.... Attributes: the indexed axes.
void index(Lowering& l) {
  const Expr x = l.stored_in(0);
  const Shape source = x.shape();
  const Indices at(l, source, 1);
  const IndexLayout& layout = at.layout;
  if (layout.columns == 0 && layout.count > 0) return l.out(at.looked_at(source));
  if (at.rows_lead()) {  // whole rows
    const Expr rows = l.reshape(x, {layout.rows, layout.columns});
    const Expr found = l.gather(rows, at.rows(source));
    return l.out(at.to_result(l.reshape(found, Shape(layout.by_index))));
  }
  l.out(at.to_result(elements_at(l, x, at.elements(source), at.site)));
}

// Inputs: g, indices.... Adds g into zeros.
void index_sum(Lowering& l) {
  const Shape source = l.shape();
  const Indices at(l, source, 1);
  const IndexLayout& layout = at.layout;
  if (layout.columns == 0 && layout.count > 0) return l.out(at.looked_at(source));
  const Expr rows = l.reshape(at.from_result(l.stored_in(0)), {layout.count, layout.columns});
  const Expr sum = sum_rows_at(l, rows, at.rows(source), layout.rows, at.site);
  l.out(at.to_source(l.reshape(sum, Shape(layout.by_row))));
}

// Inputs: x, value, indices.... Results: x with the value written, and for each row the number of
// the value written there, or -1.
void index_put(Lowering& l) {
  const Expr x = l.stored_in(0), value = l.stored_in(1);
  const Shape source = x.shape();
  const Indices at(l, source, 2);
  const IndexLayout& layout = at.layout;
  const Expr last = last_at(l, at.rows(source), layout.rows, at.site);
  std::vector<Extent> sizes(layout.by_row.begin(),
                            layout.by_row.begin() + std::ssize(layout.indexed));
  sizes.resize(layout.by_row.sizes().size(), 1);
  const Expr hit = l.binary(ScalarOp::le, zero(l, DType::i32), last);
  Expr put = value;
  if (value.shape().numel() == 1) {
    put = l.reshape(value, {});
  } else if (layout.count > 0) {
    const Expr rows = l.reshape(at.from_result(l.expand(value, Shape(layout.result))),
                                {layout.count, layout.columns});
    const Expr place = l.binary(ScalarOp::maximum, last, zero(l, DType::i32));
    put = l.reshape(l.gather(rows, l.bounded(place, layout.count, at.site)), Shape(layout.by_row));
  } else {
    put = zero(l, x.dtype());
  }
  const Expr chosen = l.where(l.reshape(hit, Shape(sizes)), put, at.from_source(x));
  l.out(0, at.to_source(chosen));
  l.out(1, last);
}

// ---- Along an axis.

namespace {

// The element numbers in `source` that (Bounded) indices along an axis refer to. They have the
// shape of the indices, or another shape with as many elements.
Expr numbers_along(Lowering& l, Expr index, Shape source, int axis) {
  Shape shape = index.shape();
  bool same = true;
  for (int d = 0; d < shape.rank(); ++d) same = same && (d == axis || shape[d] == source[d]);
  if (same) {
    shape = around(shape, axis);
    source = around(source, axis);
    axis = 1;
    index = l.reshape(index, shape);
  }
  Expr number = l.cast(index, DType::i64);
  const plan::PerAxis<Extent> strides = row_major_strides(source);
  number = number * size(l, strides[axis]);
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis && shape[d] != 1) number = number + l.iota(shape, d) * size(l, strides[d]);
  }
  return number;
}

}  // namespace

namespace {

// The node's indices along an axis of `extent` elements. With a second attribute, negative indices
// count from the end.
Expr indices_along(Lowering& l, Extent extent, int site) {
  Expr index = l.in(1);
  if (l.attrs().size() > 1) {
    index = l.cast(index, DType::i64);
    index = l.where(below(l, index, zero(l, DType::i64)), index + size(l, extent), index);
  }
  return l.bounded(index, extent, site);
}

}  // namespace

// Inputs: x, indices. Attributes: the axis, and 1 if indices may count from the end.
void take_along(Lowering& l) {
  const Expr x = l.stored_in(0);
  const int axis = static_cast<int>(l.attrs()[0]), site = l.next_site();
  const Expr index = indices_along(l, x.shape()[axis], site);
  l.out(l.reshape(elements_at(l, x, numbers_along(l, index, x.shape(), axis), site), l.shape()));
}

// Inputs: g, indices. Attributes as take_along. Adds g into zeros.
void add_along(Lowering& l) {
  const int axis = static_cast<int>(l.attrs()[0]), site = l.next_site();
  const Extent n = l.shape().numel(), k = l.in(1).shape().numel();
  const Expr index = indices_along(l, l.shape()[axis], site);
  const Expr ids = l.bounded(flat(l, numbers_along(l, index, l.shape(), axis)), n, site);
  const Expr sum = sum_rows_at(l, l.reshape(l.stored_in(0), {k, 1}), ids, n, site);
  l.out(l.reshape(sum, l.shape()));
}

// Inputs: x, source, indices. Attributes: the axis. Results: x with the source written, and for
// each element the number of the source element written there, or -1.
void put_along(Lowering& l) {
  const Expr x = l.stored_in(0), source = l.stored_in(1);
  const int axis = static_cast<int>(l.attrs()[0]), site = l.next_site();
  const Extent n = x.shape().numel(), k = l.in(2).shape().numel();
  if (k == 0) {
    l.out(0, x);
    return l.out(1, l.expand(l.constant(-1, DType::i32), {n}));
  }
  const Expr index = l.bounded(l.in(2), x.shape()[axis], site);
  const Expr ids = l.bounded(flat(l, numbers_along(l, index, x.shape(), axis)), n, site);
  const Expr last = last_at(l, ids, n, site);
  const Expr hit = l.reshape(l.binary(ScalarOp::le, zero(l, DType::i32), last), x.shape());
  Expr put = l.reshape(source, source.shape().numel() == 1 ? Shape{} : Shape{k});
  if (put.shape().rank() > 0) {
    const Expr place = l.binary(ScalarOp::maximum, last, zero(l, DType::i32));
    put = l.reshape(l.gather(put, l.bounded(place, k, site)), x.shape());
  }
  l.out(0, l.where(hit, put, x));
  l.out(1, last);
}

// Inputs: x, indices [k]. Attributes: the axis.
void select_rows(Lowering& l) {
  const Expr x = l.stored_in(0);
  const int axis = static_cast<int>(l.attrs()[0]), site = l.next_site();
  const Shape source = around(x.shape(), axis);
  const Expr index = l.bounded(l.in(1), source[1], site);
  const Extent k = index.shape().numel();
  if (l.shape().numel() == 0 && k > 0) return l.out(l.checked_nothing(index));
  if (source[0] == 1) {
    const Expr rows = l.gather(l.reshape(x, {source[1], source[2]}), index);
    return l.out(l.reshape(rows, l.shape()));
  }
  const Expr wide =
      l.expand(l.reshape(l.cast(index, DType::i64), {1, k, 1}), {source[0], k, source[2]});
  l.out(l.reshape(elements_at(l, x, numbers_along(l, wide, source, 1), site), l.shape()));
}

// Inputs: x, position. Attributes: the axis, which is kept as 1.
void select_at(Lowering& l) {
  const Expr x = l.stored_in(0);
  const int axis = static_cast<int>(l.attrs()[0]), site = l.next_site();
  const Shape source = around(x.shape(), axis);
  const Expr at = l.bounded(l.in(1), source[1], site);
  if (source[0] == 1) {
    const Expr row = l.gather(l.reshape(x, {source[1], source[2]}), at);
    return l.out(l.reshape(row, l.shape()));
  }
  const Expr wide = l.expand(l.reshape(at, {1, 1, 1}), {source[0], 1, source[2]});
  l.out(l.reshape(elements_at(l, x, numbers_along(l, wide, source, 1), site), l.shape()));
}

// ---- Regions.

// Inputs: x, value, positions.... Attributes: whether the value covers all of x; then for each axis
// the start (-1 if it is a position), step and size.
void put_slice(Lowering& l) {
  const Expr x = l.stored_in(0), value = l.stored_in(1);
  const auto attrs = l.open_attrs();
  const Shape shape = x.shape();
  const int site = l.next_site();
  const bool one = value.shape().numel() == 1;
  Expr inside;  // whether an element is inside the region
  const auto both = [&](Expr condition) {
    inside = inside.is_none() ? condition : l.binary(ScalarOp::logical_and, inside, condition);
  };
  auto before = shape.per_axis<Extent>(0);
  plan::PerAxis<Extent> sizes(shape.begin(), shape.end());
  bool padded = false, stepped = false;
  int position = 2;
  Expr number;  // number of the value's element, if there are steps
  const plan::PerAxis<Extent> strides = row_major_strides(value.shape());
  auto attr = attrs.begin() + 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const Extent start = *attr++, step = *attr++, count = *attr++;
    Expr along = l.iota(shape, axis);
    if (start < 0) {
      both(l.binary(ScalarOp::eq, along, l.in(position++)));
    } else if (step == 1) {
      if (count != shape[axis]) {
        before[axis] = start;
        sizes[axis] = count;
        padded = true;
      }
      along = along - size(l, start);
    } else {
      stepped = true;
      const Expr from = along - size(l, start), steps = size(l, step);
      both(l.binary(ScalarOp::eq, l.binary(ScalarOp::fmod, from, steps), zero(l, DType::i64)));
      along = from / steps;
      both(l.binary(ScalarOp::le, zero(l, DType::i64), along));
      both(below(l, along, size(l, count)));
    }
    if (value.shape()[axis] == 1) continue;
    const Expr term = along * size(l, strides[axis]);
    number = number.is_none() ? term : number + term;
  }
  if (padded) {
    const Expr region = l.expand(l.constant(1, DType::boolean), Shape(sizes));
    both(l.pad(region, before, shape, 0));
  }
  Expr laid;
  if (one || attrs[0] != 0) {
    laid = l.expand(one ? l.reshape(value, {}) : value, shape);
  } else if (stepped) {
    laid = elements_at(l, value, l.where(inside, number, zero(l, DType::i64)), site);
  } else {
    laid = l.pad(l.expand(value, Shape(sizes)), before, shape, 0);
  }
  l.out(inside.is_none() ? laid : l.where(inside, laid, x));
}

// Inputs: x, diagonal.
void tril(Lowering& l) {
  const Expr x = l.stored_in(0);
  const Shape shape = x.shape();
  const Expr off = l.iota(shape, shape.rank() - 1) - l.iota(shape, shape.rank() - 2);
  l.out(l.where(l.binary(ScalarOp::le, off, l.in(1)), x, zero(l, x.dtype())));
}
void triu(Lowering& l) {
  const Expr x = l.stored_in(0);
  const Shape shape = x.shape();
  const Expr off = l.iota(shape, shape.rank() - 1) - l.iota(shape, shape.rank() - 2);
  l.out(l.where(l.binary(ScalarOp::le, l.in(1), off), x, zero(l, x.dtype())));
}

// Inputs: indices. Attributes: the number of classes.
void one_hot(Lowering& l) {
  const Extent classes = l.open_attrs()[0];
  const Expr index = l.bounded(l.cast(l.in(0), DType::i64), classes, l.next_site());
  const Shape shape = index.shape().inserted(index.shape().rank(), 1);
  const Expr hot =
      l.binary(ScalarOp::eq, l.iota(l.shape(), l.shape().rank() - 1), l.reshape(index, shape));
  l.out(l.cast(hot, DType::i64));
}

// ---- Masks.

namespace {

// The number of true elements of mask [n] up to and including each element.
Expr running_count(Lowering& l, Expr mask) {
  return l.scan(l.cast(mask, mask.shape()[0] < INT32_MAX ? DType::i32 : DType::i64), 0, false);
}

// The positions of the first `count` true elements of mask [n], and n for missing ones: [count].
Expr positions(Lowering& l, Expr mask, Extent count) {
  const Extent n = mask.shape()[0];
  if (n == 0) return l.expand(zero(l, DType::i32), {count});
  const Expr running = running_count(l, mask);
  const Expr wanted = l.cast(l.iota({count}, 0), running.dtype()) + l.constant(1, running.dtype());
  return l.search(running, wanted, 0, 1, n);
}

}  // namespace

// Inputs: mask [n]. Attributes: count.
void true_positions(Lowering& l) { l.out(positions(l, l.in(0), l.open_attrs()[0])); }

// Inputs: mask [n], fill. Attributes: count, and the sizes of the mask's original shape.
void nonzero(Lowering& l) {
  const Shape shape(l.open_attrs().subspan(1));
  const Extent count = l.open_attrs()[0], n = shape.numel();
  const Expr at = l.cast(l.reshape(positions(l, l.in(0), count), {count, 1}), DType::i64);
  const Expr inside = below(l, at, size(l, n));
  const plan::PerAxis<Extent> strides = row_major_strides(shape);
  Expr result = l.in(1);
  for (int axis = 0; n > 0 && axis < shape.rank(); ++axis) {
    const Expr along = l.binary(ScalarOp::fmod, at / size(l, strides[axis]), size(l, shape[axis]));
    const Expr here = l.binary(ScalarOp::eq, l.iota(l.shape(), 1), l.size(axis, DType::i64));
    result = l.where(l.binary(ScalarOp::logical_and, here, inside), along, result);
  }
  l.out(l.expand(result, l.shape()));
}

// Inputs: x [n, d], mask [n], fill. Attributes: count.
void rows_at_true(Lowering& l) {
  const Expr x = l.stored_in(0), fill = l.stored_in(2);
  const int site = l.next_site();
  const Extent n = x.shape()[0], count = l.open_attrs()[0];
  if (x.shape().numel() == 0 || count == 0) return l.out(l.expand(fill, l.shape()));
  const Expr at = positions(l, l.in(1), count), end = l.size(n, DType::i32);
  const Expr inside = below(l, at, end);
  const Expr row = l.where(inside, at, zero(l, DType::i32));
  const Expr rows = l.gather(x, l.bounded(row, n, site));
  l.out(l.where(l.reshape(inside, {count, 1}), rows, fill));
}

// Inputs: rows [k, d], mask [n].
void rows_to_true(Lowering& l) {
  const Expr rows = l.stored_in(0), mask = l.in(1);
  const int site = l.next_site();
  const Extent k = rows.shape()[0], n = mask.shape()[0];
  if (rows.shape().numel() == 0) return l.out(l.expand(zero(l, l.dtype()), l.shape()));
  const Expr count = running_count(l, mask);
  const Expr at = count - l.constant(1, count.dtype());
  const Expr inside = l.binary(ScalarOp::logical_and, mask, below(l, at, l.size(k, count.dtype())));
  const Expr row = l.bounded(l.where(inside, at, zero(l, count.dtype())), k, site);
  l.out(l.where(l.reshape(inside, {n, 1}), l.gather(rows, row), zero(l, rows.dtype())));
}

}  // namespace volta::graph::expand
