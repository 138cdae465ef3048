// Pooling and its gradients in primitives: reductions over windows, and sums of overlapping
// windows.
#include <limits>

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

constexpr std::int64_t kTaps[] = {4, 5};  // axes of [n, oh, ow, c, kh, kw]

// The windows of images of one size, and their results. The images of all channels count as
// separate images with c = 1, or channels are last if `like` prefers them last.
struct Pool {
  Pool(Lowering& l, const Shape& images, const Shape& results, Expr like)
      : l(l),
        spec(PoolSpec::of(l.attrs())),
        image(image_of(images)),
        windows(spec_windows(results)),
        channels_last(images.rank() == 4 && l.has_channels_last(like)) {
    const Extent pixels = image.height * image.width;
    c = channels_last ? images[1] : Extent(1);
    n = pixels * c == 0 ? Extent(0) : images.numel() / (pixels * c);
  }
  Windows spec_windows(const Shape& results) const {
    return {.kernel = spec.kernel,
            .stride = spec.stride,
            .padding = spec.padding,
            .dilation = spec.dilation,
            .count = image_of(results)};
  }

  // Converts an operand of either size to [n, height, width, c], and back.
  Expr inside(Expr x, const ImageSize& size) const {
    constexpr std::int64_t kOrder[] = {0, 2, 3, 1};
    return channels_last ? l.permute(x, kOrder) : l.reshape(x, {n, size.height, size.width, 1});
  }
  Expr outside(Expr x) const {
    if (!channels_last) return l.reshape(x, l.shape());
    constexpr std::int64_t kOrder[] = {0, 3, 1, 2};
    const Expr images = l.permute(x, kOrder);
    l.prefer_channels_last(images);
    return images;
  }

  // The windows: [n, oh, ow, c, kh, kw].
  Expr seen(Expr x, double fill) const { return windows_of(l, windows, inside(x, image), fill); }
  // Reshapes one number per window to broadcast with the taps: [n, oh, ow, c, 1, 1] or
  // [n, oh, ow, 1, 1, c].
  Expr beside(Expr results, bool last) const {
    const ImageSize& count = windows.count;
    const Shape before{n, count.height, count.width, c, 1, 1},
        after{n, count.height, count.width, 1, 1, c};
    return l.reshape(inside(results, count), last ? after : before);
  }
  // Adds up windows [n, oh, ow, kh, kw, c] to the node's shape.
  Expr images_of(Expr taps) const { return outside(scattered(l, windows, taps, image)); }
  Shape taps() const {
    return {n, windows.count.height, windows.count.width, spec.kernel.height, spec.kernel.width, c};
  }
  // The number of each tap in its window as i32, [1, 1, 1, kh, kw] with one more axis at either
  // end.
  Expr numbers(bool last) const {
    const std::int64_t kh = spec.kernel.height, kw = spec.kernel.width;
    const Expr number = l.iota({kh, kw}, 0) * l.size(kw, DType::i64) + l.iota({kh, kw}, 1);
    const Shape shape = last ? Shape{1, 1, 1, kh, kw, 1} : Shape{1, 1, 1, 1, kh, kw};
    return l.cast(l.reshape(number, shape), DType::i32);
  }
  Expr is_chosen(Expr positions, bool last) const {
    return l.binary(ScalarOp::eq, l.cast(beside(positions, last), DType::i32), numbers(last));
  }

  // The index of a window along one direction, to broadcast with results [n, oh, ow, c].
  Expr window(int axis) const {
    const ImageSize& count = windows.count;
    return l.iota(axis == 1 ? Shape{1, count.height, 1, 1} : Shape{1, 1, count.width, 1}, axis);
  }
  Expr number(Extent value) const { return l.size(value, DType::i64); }

  Lowering& l;
  const PoolSpec spec;
  const ImageSize image;
  const Windows windows;
  const bool channels_last;
  Extent n, c;
};

// For each window, its first tap along a direction that is not in the padding.
Expr first_tap(const Pool& p, int axis, std::int64_t stride, std::int64_t padding,
               std::int64_t dilation) {
  Lowering& l = p.l;
  const Expr before = p.number(padding) - p.window(axis) * p.number(stride);
  const Expr in_padding = l.binary(ScalarOp::maximum, before, l.constant(0, DType::i64));
  return (in_padding + p.number(dilation - 1)) / p.number(dilation);
}

// For each window, the number of elements along a direction that count.
Expr counted(const Pool& p, int axis, std::int64_t kernel, std::int64_t stride,
             std::int64_t padding, Extent size) {
  Lowering& l = p.l;
  const Expr start = p.window(axis) * p.number(stride) - p.number(padding);
  const Extent end = p.spec.count_padding ? size + padding : size;
  const Expr past = l.binary(ScalarOp::minimum, start + p.number(kernel), p.number(end));
  if (p.spec.count_padding) return past - start;
  return past - l.binary(ScalarOp::maximum, start, l.constant(0, DType::i64));
}

// For each window, the number of elements in its mean: one number, or [1, oh, ow, 1].
Expr divisor(const Pool& p, DType dtype) {
  const PoolSpec& s = p.spec;
  const Extent2 reach = p.windows.reach();
  const ImageSize& count = p.windows.count;
  const Extent2 padding = s.count_padding ? s.padding : Extent2(0);
  const auto is_whole = [](Extent count, std::int64_t stride, std::int64_t reach,
                           std::int64_t padding, std::int64_t counted, Extent size) {
    return padding == counted && (count - 1) * stride + reach <= size + 2 * padding;
  };
  if (is_whole(count.height, s.stride.height, reach.height, s.padding.height, padding.height,
               p.image.height) &&
      is_whole(count.width, s.stride.width, reach.width, s.padding.width, padding.width,
               p.image.width)) {
    return p.l.size(s.kernel.height * s.kernel.width, dtype);
  }
  const Expr each =
      counted(p, 1, s.kernel.height, s.stride.height, s.padding.height, p.image.height) *
      counted(p, 2, s.kernel.width, s.stride.width, s.padding.width, p.image.width);
  return p.l.cast(each, dtype);
}

}  // namespace

// Inputs: x. Results: the largest elements, and the positions of the first of them in their
// windows.
void max_pool(Lowering& l) {
  const Expr x = l.in(0);
  const Pool p(l, x.shape(), l.shape(), x);
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const Expr seen = p.seen(x, kLowest), largest = l.reduce(ReduceOp::Max, seen, kTaps);
  l.out(0, p.outside(largest));
  Expr position = l.reduce(ReduceOp::ArgMax, seen, kTaps);
  const PoolSpec& s = p.spec;
  if (s.padding != Extent2(0)) {
    // If all elements are -inf, the padding is as large as they are, so the first element is taken.
    const Expr first = first_tap(p, 1, s.stride.height, s.padding.height, s.dilation.height) *
                           p.number(s.kernel.width) +
                       first_tap(p, 2, s.stride.width, s.padding.width, s.dilation.width);
    const Expr is_lowest = l.binary(ScalarOp::eq, largest, literal(l, kLowest, x));
    position = l.where(is_lowest, first, position);
  }
  const bool small = s.kernel.height * s.kernel.width <= 256;
  l.out(1, p.outside(l.stored(l.cast(position, small ? DType::u8 : DType::i32))));
}

// Inputs: the gradient of the result, positions.
void max_pool_grad(Lowering& l) {
  const Expr g = l.in(0);
  const Expr positions = l.in(1);
  const Pool p(l, l.shape(), g.shape(), l.has_channels_last(g) ? g : positions);
  l.out(p.images_of(
      l.where(p.is_chosen(positions, true), p.beside(g, true), l.constant(0, g.dtype()))));
}

// Inputs: images, positions. Result: the images' elements at the positions.
void max_pool_at(Lowering& l) {
  const Expr x = l.in(0);
  const Pool p(l, x.shape(), l.shape(), x);
  const Expr seen = l.where(p.is_chosen(l.in(1), false), p.seen(x, 0), l.constant(0, x.dtype()));
  l.out(p.outside(l.reduce(ReduceOp::Sum, seen, kTaps)));
}

void avg_pool(Lowering& l) {
  const Expr x = l.in(0);
  const Pool p(l, x.shape(), l.shape(), x);
  const Expr sums = l.reduce(ReduceOp::Sum, p.seen(x, 0), kTaps);
  l.out(p.outside(sums / divisor(p, x.dtype())));
}

void avg_pool_grad(Lowering& l) {
  const Expr g = l.in(0);
  const Pool p(l, l.shape(), g.shape(), g);
  const ImageSize& count = p.windows.count;
  const Expr share = p.inside(g, count) / divisor(p, g.dtype());
  const Expr beside = l.reshape(share, {p.n, count.height, count.width, 1, 1, p.c});
  l.out(p.images_of(l.expand(beside, p.taps())));
}

}  // namespace volta::graph::expand
