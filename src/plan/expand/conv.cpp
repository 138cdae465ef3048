// Convolutions as library calls or in primitives. In primitives, channels are last, the windows of
// the input are the rows of a matrix, and the matrix is multiplied by the weight. Convolutions that
// are too small for a product are sums of window times weight.
#include <algorithm>

#include "graph/attributes/convolution.h"
#include "plan/calls/convolution.h"
#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"
#include "plan/expand/windows.h"

namespace volta::graph::expand {
namespace {

using kernel::ReduceOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

// The sizes of a convolution. Internally the shapes are input [n, h, w, c], weight [o, kh, kw, c /
// groups] and result [n, oh, ow, o].
struct Sizes {
  Sizes(const ConvSpec& s, const Shape& input, const Shape& weight, const Shape& result)
      : spec(s),
        n(input[0]),
        h(input[2]),
        w(input[3]),
        oh(result[2]),
        ow(result[3]),
        c(input[1]),
        o(weight[0]),
        kh(weight[2]),
        kw(weight[3]) {}
  ConvSpec spec;
  Extent n, h, w, oh, ow;
  std::int64_t c, o, kh, kw;

  std::int64_t group_in() const { return c / spec.groups; }
  std::int64_t group_out() const { return o / spec.groups; }
  std::int64_t taps() const { return kh * kw; }
  Windows windows() const {
    return {.kernel = {kh, kw},
            .stride = spec.stride,
            .padding = spec.padding,
            .dilation = spec.dilation,
            .count = {oh, ow}};
  }
  plan::ConvStep step(plan::ConvStep::Kind kind) const {
    plan::ConvStep result;
    result.kind = kind;
    result.tf32 = spec.tf32;
    result.c_in = c;
    result.c_out = o;
    result.groups = spec.groups;
    result.kernel = {kh, kw};
    result.stride = {spec.stride.height, spec.stride.width};
    result.padding = {spec.padding.height, spec.padding.width};
    result.dilation = {spec.dilation.height, spec.dilation.width};
    return result;
  }
  // The sizes of a step that may be open.
  plan::ConvSizes sizes() const { return {n, {h, w}, {oh, ow}}; }
  bool is_empty() const { return n * c * h * w * o * oh * ow == 0; }
};

Expr channels_last(Lowering& l, Expr image) {
  const std::int64_t order[] = {0, 2, 3, 1};
  return l.permute(image, order);
}
Expr channels_second(Lowering& l, Expr image) {
  const std::int64_t order[] = {0, 3, 1, 2};
  return l.permute(image, order);
}

// The images [first, first + count) of [n, ...].
Expr images(Lowering& l, Expr x, Extent first, Extent count) {
  auto start = x.shape().per_axis<Extent>(0);
  start[0] = first;
  return l.shrink(x, start, x.shape().with(0, count));
}

// The windows that the kernel sees: [n, oh, ow, kh, kw, c].
Expr seen_in(Lowering& l, const Sizes& s, Expr x) {
  const std::int64_t order[] = {0, 1, 2, 4, 5, 3};
  return l.permute(windows_of(l, s.windows(), x, 0), order);
}

// Reshapes windows [n, oh, ow, kh, kw, c] to matrices of rows [groups, pixels, taps * c / groups],
// or to one matrix without groups.
Expr rows_of(Lowering& l, const Sizes& s, Expr seen) {
  const Shape shape = seen.shape();
  const Extent pixels = shape[0] * s.oh * s.ow, width = s.taps() * s.group_in();
  if (s.spec.groups == 1) return l.reshape(seen, {pixels, width});
  const std::int64_t order[] = {2, 0, 1, 3};
  const Expr grouped =
      l.permute(l.reshape(seen, {pixels, s.taps(), s.spec.groups, s.group_in()}), order);
  return l.reshape(grouped, {s.spec.groups, pixels, width});
}
// The inverse of rows_of.
Expr seen_of(Lowering& l, const Sizes& s, Expr rows, Extent n) {
  const Extent pixels = n * s.oh * s.ow;
  if (s.spec.groups != 1) {
    const std::int64_t order[] = {1, 2, 0, 3};
    rows = l.permute(l.reshape(rows, {s.spec.groups, pixels, s.taps(), s.group_in()}), order);
  }
  return l.reshape(rows, {n, s.oh, s.ow, s.kh, s.kw, s.c});
}

// Reshapes a result [n, oh, ow, o] to [groups, pixels, o / groups], or to one matrix without
// groups.
Expr columns_of(Lowering& l, const Sizes& s, Expr result) {
  const Extent pixels = result.shape()[0] * s.oh * s.ow;
  if (s.spec.groups == 1) return l.reshape(result, {pixels, s.o});
  const std::int64_t order[] = {1, 0, 2};
  return l.permute(l.reshape(result, {pixels, s.spec.groups, s.group_out()}), order);
}
Expr result_of(Lowering& l, const Sizes& s, Expr columns, Extent n) {
  if (s.spec.groups != 1) {
    const std::int64_t order[] = {1, 0, 2};
    columns = l.permute(columns, order);
  }
  return l.reshape(columns, {n, s.oh, s.ow, s.o});
}

// Reshapes the weight [o, c / groups, kh, kw] to [groups, o / groups, taps * c / groups].
Expr matrix_of(Lowering& l, const Sizes& s, Expr weight) {
  const std::int64_t width = s.taps() * s.group_in();
  const Expr last = channels_last(l, weight);
  if (s.spec.groups == 1) return l.reshape(last, {s.o, width});
  return l.reshape(last, {s.spec.groups, s.group_out(), width});
}
Expr weight_of(Lowering& l, const Sizes& s, Expr matrix) {
  return channels_second(l, l.reshape(matrix, {s.o, s.kh, s.kw, s.group_in()}));
}

// Whether each input channel is a group; products would then have a single column.
bool is_by_channel(const Sizes& s) { return s.group_in() == 1 && s.spec.groups > 1; }
// The windows of each channel: [n, oh, ow, groups, taps, 1].
Expr channels_seen(Lowering& l, const Sizes& s, Expr seen) {
  const Extent n = seen.shape()[0];
  const std::int64_t order[] = {0, 1, 2, 4, 3};
  const Expr taps = l.permute(l.reshape(seen, {n, s.oh, s.ow, s.taps(), s.c}), order);
  return l.reshape(taps, {n, s.oh, s.ow, s.c, 1, s.taps()});
}
// The kernels of each channel: [1, 1, 1, groups, o / groups, taps].
Expr channel_kernels(Lowering& l, const Sizes& s, Expr weight) {
  return l.reshape(weight, {1, 1, 1, s.c, s.group_out(), s.taps()});
}

// Windows take as much memory as the input times the number of taps. Images are processed a part at
// a time, so that the windows stay below this limit.
constexpr std::int64_t kWindowBytes = std::int64_t{1} << 28;
Extent images_at_once(const Sizes& s, DType dtype) {
  const Extent each = s.oh * s.ow * s.taps() * s.c * static_cast<std::int64_t>(size_of(dtype));
  const Extent most = plan::greater(1, kWindowBytes / plan::greater(each, 1));
  const Extent parts = (s.n + most - 1) / most;
  return (s.n + parts - 1) / parts;
}

// Computes `part(first, count)` for all images; each part reuses the memory of the one before.
template <class Part>
std::vector<Expr> each_part(Lowering& l, Extent n, Extent at_once, const Part& part) {
  if (at_once >= n) return {part(Extent(0), n)};
  std::vector<Expr> parts;
  for (Extent first = 0; first < n; first += at_once) {
    l.begin_phase();
    parts.push_back(l.stored(part(first, n - first < at_once ? n - first : at_once)));
  }
  l.end_phases();
  return parts;
}
// Computes parts and concatenates them along the first axis.
template <class Part>
Expr by_parts(Lowering& l, Extent n, Extent at_once, const Part& part) {
  return joined(l, each_part(l, n, at_once, part), 0);
}

Expr nothing(Lowering& l, const Shape& shape) {
  const bool half = l.dtype() == DType::f16 || l.dtype() == DType::bf16;
  return l.expand(l.constant(0, half ? DType::f32 : l.dtype()), shape);
}

Expr with_bias(Lowering& l, Expr y) {
  if (l.inputs() < 3) return y;
  const Expr bias = l.in(2);
  return l.cast(y, bias.dtype()) + l.reshape(bias, {1, bias.shape()[0], 1, 1});
}

// Sets the result from images with channels last.
void finish(Lowering& l, Expr images) {
  const Expr y = channels_second(l, images);
  l.prefer_channels_last(y);
  l.out(with_bias(l, y));
}

}  // namespace

// Inputs: x, weight, bias.
void conv(Lowering& l) {
  const Expr x = l.stored_in(0), weight = l.stored_in(1);
  const Sizes s(ConvSpec::of(l.attrs()), x.shape(), weight.shape(), l.shape());
  if (s.is_empty()) return l.out(with_bias(l, nothing(l, l.shape())));
  const Expr last = channels_last(l, x);
  l.prefer_channels_last(x);
  const Expr library =
      plan::convolution(l, s.step(plan::ConvStep::Kind::Forward), s.sizes(), last, weight);
  if (!library.is_none()) return finish(l, library);
  const Expr y = by_parts(l, s.n, images_at_once(s, x.dtype()), [&](Extent first, Extent count) {
    const Expr seen = seen_in(l, s, images(l, last, first, count));
    if (is_by_channel(s)) {
      const std::int64_t taps = 5;
      const Expr sum = l.reduce(
          ReduceOp::Sum,
          widened(l, channels_seen(l, s, seen)) * widened(l, channel_kernels(l, s, weight)),
          {&taps, 1});
      return l.reshape(sum, {count, s.oh, s.ow, s.o});
    }
    const Expr product =
        plan::matmul(l, widened(l, rows_of(l, s, seen)), widened(l, matrix_of(l, s, weight)), false,
                     true, s.spec.tf32);
    return result_of(l, s, product, count);
  });
  finish(l, y);
}

// Inputs: the gradient of the result, weight, bias.
void conv_input_grad(Lowering& l) {
  const Expr g = l.stored_in(0), weight = l.stored_in(1);
  const Sizes s(ConvSpec::of(l.attrs()), l.shape(), weight.shape(), g.shape());
  if (s.is_empty()) return l.out(with_bias(l, nothing(l, l.shape())));
  const Expr last = channels_last(l, g);
  l.prefer_channels_last(g);
  const Expr library =
      plan::convolution(l, s.step(plan::ConvStep::Kind::InputGrad), s.sizes(), last, weight);
  if (!library.is_none()) return finish(l, library);
  const Expr x = by_parts(l, s.n, images_at_once(s, g.dtype()), [&](Extent first, Extent count) {
    const Expr part = images(l, last, first, count);
    if (is_by_channel(s)) {
      const std::int64_t kernels = 4, order[] = {0, 1, 2, 4, 3};
      const Expr each = l.reshape(part, {count, s.oh, s.ow, s.c, s.group_out(), 1});
      const Expr sum =
          l.reduce(ReduceOp::Sum, widened(l, each) * widened(l, channel_kernels(l, s, weight)),
                   {&kernels, 1});
      const Expr seen = l.reshape(l.permute(sum, order), {count, s.oh, s.ow, s.kh, s.kw, s.c});
      return scattered(l, s.windows(), seen, {s.h, s.w});
    }
    const Expr rows = plan::matmul(l, widened(l, columns_of(l, s, part)),
                                   widened(l, matrix_of(l, s, weight)), false, false, s.spec.tf32);
    return scattered(l, s.windows(), seen_of(l, s, rows, count), {s.h, s.w});
  });
  finish(l, x);
}

// Inputs: x, the gradient of the result.
void conv_weight_grad(Lowering& l) {
  const Expr x = l.stored_in(0), g = l.stored_in(1);
  const Sizes s(ConvSpec::of(l.attrs()), x.shape(), l.shape(), g.shape());
  if (s.is_empty()) return l.out(nothing(l, l.shape()));
  const Expr inputs = channels_last(l, x), results = channels_last(l, g);
  l.prefer_channels_last(x);
  l.prefer_channels_last(g);
  const Expr library =
      plan::convolution(l, s.step(plan::ConvStep::Kind::WeightGrad), s.sizes(), inputs, results);
  if (!library.is_none()) return l.out(library);
  const Extent at_once = images_at_once(s, x.dtype());
  const std::vector<Expr> matrices = each_part(l, s.n, at_once, [&](Extent first, Extent count) {
    const Expr seen = seen_in(l, s, images(l, inputs, first, count)),
               part = images(l, results, first, count);
    if (is_by_channel(s)) {
      const std::int64_t pixels[] = {0, 1, 2};
      const Expr each = l.reshape(part, {count, s.oh, s.ow, s.c, s.group_out(), 1});
      const Expr kernels =
          l.reduce(ReduceOp::Sum, widened(l, each) * widened(l, channels_seen(l, s, seen)), pixels);
      return l.reshape(kernels, {s.o, s.taps()});
    }
    return plan::matmul(l, widened(l, columns_of(l, s, part)), widened(l, rows_of(l, s, seen)),
                        true, false, s.spec.tf32);
  });
  Expr sum = matrices.front();
  for (std::size_t i = 1; i < matrices.size(); ++i) sum = sum + matrices[i];
  l.out(weight_of(l, s, sum));
}

}  // namespace volta::graph::expand
