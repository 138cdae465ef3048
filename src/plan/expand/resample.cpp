// Resized images in primitives. Along each axis, resizing and its gradient are multiplications by a
// banded matrix given by formulas: every element is a sum over a few neighbours.
#include <algorithm>

#include "core/ceil_div.h"
#include "graph/attributes/pooling.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"
#include "plan/expand/windows.h"

namespace volta::graph::expand {
namespace {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

// One axis with `from` elements before and `to` after resizing. Indices are i64, weights have
// `dtype`.
struct Axis {
  Lowering& l;
  Resampling mode;
  Extent from, to;
  Expr ratio;  // from / to; unused for means
  DType dtype;

  Expr number(Extent n) const { return l.size(n, DType::i64); }
  Expr least(Expr a, Extent n) const { return l.binary(ScalarOp::minimum, a, number(n)); }
  Expr not_negative(Expr a) const {
    return l.binary(ScalarOp::maximum, a, l.constant(0, a.dtype()));
  }
  Expr half(double sign) const { return l.constant(sign * 0.5, dtype); }
  Expr floored(Expr a) const { return l.cast(l.unary(ScalarOp::floor, a), DType::i64); }

  // ---- The elements that contribute to element o of the result.

  // The position of o among the original elements, in `dtype`.
  Expr place(Expr o) const {
    const Expr at = l.cast(o, dtype);
    if (mode != Resampling::bilinear) return at * ratio;
    return not_negative((at + half(1)) * ratio - half(1));
  }
  // For nearest the original element; for bilinear the first of two.
  Expr source(Expr o) const { return least(floored(place(o)), from - 1); }
  Expr next(Expr source) const { return least(source + number(1), from - 1); }
  // For bilinear the weight of the second element.
  Expr weight(Expr o) const { return place(o) - l.cast(source(o), dtype); }
  // For means the range [first, past) of original elements.
  Expr first(Expr o) const { return o * number(from) / number(to); }
  Expr past(Expr o) const { return ((o + number(1)) * number(from) + number(to - 1)) / number(to); }
  Expr count(Expr o) const { return l.cast(past(o) - first(o), dtype); }
  Expr is_in_mean(Expr o, Expr i) const {
    return l.binary(ScalarOp::logical_and, l.binary(ScalarOp::le, first(o), i),
                    l.binary(ScalarOp::lt, i, past(o)));
  }
  Extent most_in_mean() const { return plan::lesser(from, ceil_div(from, to) + 1); }

  // ---- The elements of the result to which an original element contributes: `most_uses` of them
  // from `first_use` on. Some of these may have a share of 0.

  Extent most_uses() const {
    if (mode == Resampling::mean) return plan::lesser(to, ceil_div(to, from) + 1);
    if (mode == Resampling::nearest) return plan::lesser(to, ceil_div(to + 1, from) + 3);
    if (mode == Resampling::bilinear) return plan::lesser(to, ceil_div(2 * (to + 1), from) + 3);
    return from == 1 ? to : plan::lesser(to, ceil_div(2 * (to - 1), from - 1) + 3);
  }
  Expr first_use(Expr i) const {
    const Extent most = most_uses();
    if (most == to) return l.expand(l.constant(0, DType::i64), i.shape());
    if (mode == Resampling::mean) return least(i * number(to) / number(from), to - most);
    const Expr at = l.cast(i, dtype);
    const Expr start = mode == Resampling::nearest    ? at / ratio
                       : mode == Resampling::bilinear ? (at - half(1)) / ratio - half(1)
                                                      : (at - l.constant(1, dtype)) / ratio;
    return least(not_negative(floored(start) - number(1)), to - most);
  }
  // The share of original element i in element o.
  Expr share(Expr o, Expr i) const {
    const Expr nothing = l.constant(0, dtype), all = l.constant(1, dtype);
    if (mode == Resampling::mean) return l.where(is_in_mean(o, i), all / count(o), nothing);
    const Expr near = source(o), is_near = l.binary(ScalarOp::eq, near, i);
    if (mode == Resampling::nearest) return l.where(is_near, all, nothing);
    const Expr second = weight(o);
    return l.where(is_near, all - second, nothing) +
           l.where(l.binary(ScalarOp::eq, next(near), i), second, nothing);
  }
};

// Images with the channels as separate images: [n, height, width].
struct Images {
  Images(Lowering& l, Expr x, int site) : l(l), image(image_of(x.shape())), site(site) {
    n = x.shape().numel() / (image.height * image.width);
    flat = l.reshape(x, {x.shape().numel()});
  }
  // The elements at indices whose first axis is n, converted to f32 if they are halves.
  Expr at(const Shape& shape, Expr row, Expr column) const {
    const auto size = [&](Extent number) { return l.size(number, DType::i64); };
    const Expr number = (l.iota(shape, 0) * size(image.height) + row) * size(image.width) + column;
    return widened(l, l.gather(flat, l.bounded(number, flat.shape()[0], site)));
  }

  Lowering& l;
  const ImageSize image;
  const int site;
  Extent n;
  Expr flat;
};

struct Axes {
  Axes(Lowering& l, const Shape& from, const Shape& to)
      : mode(static_cast<Resampling>(l.attrs()[0])),
        height(axis(l, image_of(from).height, image_of(to).height, 1)),
        width(axis(l, image_of(from).width, image_of(to).width, 2)) {}
  Axis axis(Lowering& l, Extent from, Extent to, int input) const {
    const bool wide = l.dtype() == DType::f64 && mode != Resampling::nearest;
    const DType dtype = wide ? DType::f64 : DType::f32;
    return {l,    mode, from, to, mode == Resampling::mean ? Expr{} : l.cast(l.in(input), dtype),
            dtype};
  }
  Resampling mode;
  Axis height, width;
};

Expr nothing(Lowering& l) { return l.expand(l.constant(0, l.dtype()), l.shape()); }

// Returns [n, oh, ow].
Expr interpolated(Lowering& l, const Axes& axes, const Images& x, const ImageSize& size) {
  const Shape shape{x.n, size.height, size.width};
  const Expr i = l.iota(shape, 1), j = l.iota(shape, 2);
  const Expr row = axes.height.source(i), column = axes.width.source(j);
  if (axes.mode == Resampling::nearest) return x.at(shape, row, column);
  const Expr down = axes.height.weight(i), right = axes.width.weight(j);
  const Expr one = l.constant(1, down.dtype());
  const auto along = [&](Expr r) {
    return (one - right) * x.at(shape, r, column) + right * x.at(shape, r, axes.width.next(column));
  };
  return (one - down) * along(row) + down * along(axes.height.next(row));
}

// A sum over the neighbours of each element: [n, height, width, rows, columns].
struct Neighbours {
  Neighbours(Lowering& l, Extent n, const ImageSize& size, Extent rows, Extent columns)
      : shape{n, size.height, size.width, rows, columns},
        i(l.iota(shape, 1)),
        j(l.iota(shape, 2)),
        row(l.iota(shape, 3)),
        column(l.iota(shape, 4)) {}
  Expr sum(Lowering& l, Expr values) const {
    const std::int64_t axes[] = {3, 4};
    return l.reduce(ReduceOp::Sum, values, axes);
  }
  Shape shape;
  Expr i, j, row, column;
};

// Returns [n, oh, ow]. Elements outside of a mean must not affect it, even if they are NaN.
Expr averaged(Lowering& l, const Axes& axes, const Images& x, const ImageSize& size) {
  const Axis &h = axes.height, &w = axes.width;
  const Neighbours near(l, x.n, size, h.most_in_mean(), w.most_in_mean());
  const Expr row = h.least(h.first(near.i) + near.row, h.from - 1),
             column = w.least(w.first(near.j) + near.column, w.from - 1);
  const Expr inside = l.binary(
      ScalarOp::logical_and, l.binary(ScalarOp::lt, h.first(near.i) + near.row, h.past(near.i)),
      l.binary(ScalarOp::lt, w.first(near.j) + near.column, w.past(near.j)));
  const Expr value = x.at(near.shape, row, column);
  const Expr sum = near.sum(l, l.where(inside, value, literal(l, 0, value)));
  const Shape shape = sum.shape();
  return sum / (h.count(l.iota(shape, 1)) * w.count(l.iota(shape, 2)));
}

}  // namespace

// Inputs: x, and the ratios of the sizes.
void resample(Lowering& l) {
  const int site = l.next_site();  // indices are formulas, never out of range
  if (l.shape().numel() == 0) return l.out(nothing(l));
  const Expr x = l.stored_in(0);
  const Axes axes(l, x.shape(), l.shape());
  const Images images(l, x, site);
  const ImageSize size = image_of(l.shape());
  const Expr y = axes.mode == Resampling::mean ? averaged(l, axes, images, size)
                                               : interpolated(l, axes, images, size);
  l.out(l.reshape(y, l.shape()));
}

// Inputs: the gradient of the result, and the ratios of the sizes.
void resample_grad(Lowering& l) {
  const int site = l.next_site();  // indices are formulas, never out of range
  if (l.shape().numel() == 0) return l.out(nothing(l));
  const Expr g = l.stored_in(0);
  const Axes axes(l, l.shape(), g.shape());
  const Axis &h = axes.height, &w = axes.width;
  const Images results(l, g, site);
  const Neighbours uses(l, results.n, image_of(l.shape()), h.most_uses(), w.most_uses());
  const Expr row = h.first_use(uses.i) + uses.row, column = w.first_use(uses.j) + uses.column;
  const Expr value = results.at(uses.shape, row, column);
  const Expr share = l.cast(h.share(row, uses.i) * w.share(column, uses.j), value.dtype());
  const Expr none = literal(l, 0, value);
  const Expr used = l.where(l.binary(ScalarOp::ne, share, none), share * value, none);
  l.out(l.reshape(uses.sum(l, used), l.shape()));
}

}  // namespace volta::graph::expand
