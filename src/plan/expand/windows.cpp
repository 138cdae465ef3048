// Windows of images in primitives: views, and sums along diagonals.
#include "plan/expand/windows.h"

#include <algorithm>

#include "core/ceil_div.h"

namespace volta::graph::expand {
namespace {

using kernel::ReduceOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

plan::PerAxis<Extent> nothing(const Shape& shape) { return shape.per_axis<Extent>(0); }

// One direction of the windows. Tap k of window i is at pixel stride i + dilation k - padding. With
// `shift` zeros before the first tap, the padding is `skipped` whole strides. Tap stride t + r,
// counted with the zeros, is then at pixel stride (i + t - skipped) + r, which gives sums over t
// along diagonals.
struct Direction {
  Direction(std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation)
      : stride(stride),
        dilation(dilation),
        reach(dilation * (kernel - 1) + 1),
        shift((stride - padding % stride) % stride),
        skipped((padding + shift) / stride),
        steps(ceil_div(reach + shift, stride)) {}
  std::int64_t stride, dilation, reach, shift, skipped, steps;
};

// Spreads the taps `dilation` apart, with zeros between, before and after them, to whole strides.
Expr spaced(Lowering& l, const Direction& d, Expr x, int axis) {
  const Shape shape = x.shape();
  if (d.dilation > 1) {
    const Shape cut = shape.inserted(axis + 1, 1);
    x = l.pad(l.reshape(x, cut), nothing(cut), cut.with(axis + 1, d.dilation), 0);
    x = l.reshape(x, shape.with(axis, shape[axis] * d.dilation));
    x = l.shrink(x, nothing(shape), shape.with(axis, d.reach));
  }
  auto before = nothing(shape);
  before[axis] = d.shift;
  return l.pad(x, before, shape.with(axis, d.steps * d.stride), 0);
}

// Takes `count` elements along the axis from `start` on, with zeros past its end.
Expr part(Lowering& l, Expr x, int axis, std::int64_t start, Extent count) {
  const Shape shape = x.shape();
  x = l.pad(x, nothing(shape), shape.with(axis, plan::greater(shape[axis], start + count)), 0);
  auto from = nothing(shape);
  from[axis] = start;
  return l.shrink(x, from, shape.with(axis, count));
}

}  // namespace

Expr windows_of(Lowering& l, const Windows& w, Expr images, double fill) {
  const Shape shape = images.shape();
  const Extent2 reach = w.reach();
  const Extent rows = (w.count.height - 1) * w.stride.height + reach.height,
               columns = (w.count.width - 1) * w.stride.width + reach.width;
  const Extent before[] = {0, w.padding.height, w.padding.width, 0};
  const Shape padded{shape[0], plan::greater(shape[1] + w.padding.height, rows),
                     plan::greater(shape[2] + w.padding.width, columns), shape[3]};
  Expr x = l.pad(images, before, padded, fill);
  x = l.shrink(x, nothing(shape), {shape[0], rows, columns, shape[3]});
  x = l.windows(x, 1, w.kernel.height, w.stride.height, w.dilation.height);
  return l.windows(x, 2, w.kernel.width, w.stride.width, w.dilation.width);
}

Expr scattered(Lowering& l, const Windows& w, Expr seen, const ImageSize& image) {
  const Direction v(w.kernel.height, w.stride.height, w.padding.height, w.dilation.height),
      h(w.kernel.width, w.stride.width, w.padding.width, w.dilation.width);
  const Extent n = seen.shape()[0], c = seen.shape()[5];
  Expr x = spaced(l, h, spaced(l, v, seen, 3), 4);
  x = l.reshape(x, {n, w.count.height, w.count.width, v.steps, v.stride, h.steps, h.stride * c});
  // The needed part of the diagonals is cut out before they are added up, in whole strides of
  // pixels.
  const Extent rows = ceil_div(image.height, v.stride), columns = ceil_div(image.width, h.stride);
  const std::int64_t order[] = {0, 1, 4, 2, 6, 5, 3};  // n, oh, stride, ow, stride c, steps, steps
  x = part(l, l.shear(l.permute(x, order), 1), 1, v.skipped, rows);
  const std::int64_t turn[] = {0, 1, 2, 3, 4, 6, 5}, sums[] = {5, 6};
  x = part(l, l.shear(l.permute(x, turn), 3), 3, h.skipped, columns);
  x = l.reshape(l.reduce(ReduceOp::Sum, x, sums), {n, rows * v.stride, columns * h.stride, c});
  const Shape cut{n, image.height, image.width, c};
  return l.shrink(x, nothing(cut), cut);
}

}  // namespace volta::graph::expand
