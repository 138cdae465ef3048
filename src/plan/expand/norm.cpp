// Batch norm in primitives. The values of a channel are spread over memory; they are summed in
// parallel chunks, and a small kernel combines the chunks' sums.
//
// The statistics of a chunk take one pass, whatever its schedule and the layout of x. It sums d and
// d^2 (divided by the number of all values), where d = x - k and k is the median of three of the
// chunk's elements. For typical values, (k - mean)^2 is about their variance v, however far they
// are from 0, so sum d^2 - (sum d)^2 / L loses nothing to cancellation. A single outlier among the
// three is not chosen; if two of them are outliers, (k - mean)^2 <= L v still holds for a chunk of
// length L, because k is one of its values. Chunks are combined by Chan's formula.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

namespace {

// An axis divided into equal parts, the last of which may extend beyond its end.
struct Parts {
  Extent extent, count, length;
  bool even() const { return count * length == extent; }
  Extent shortest() const { return extent - (count - 1) * length; }
};

// Divides into `wanted` parts, or into up to half as many if they divide the axis evenly.
Parts parts_of(Extent extent, Extent wanted) {
  if (wanted == 1) return {extent, 1, extent};
  const Extent count = plan::evaluated(
      [](std::span<const std::int64_t> a) {
        const std::int64_t most = std::max(a[1], INT64_C(1));
        for (std::int64_t fitting = most; fitting > most / 2; --fitting) {
          if (a[0] % fitting == 0) return fitting;
        }
        const std::int64_t length = std::max((a[0] + most - 1) / most, INT64_C(1));
        return (a[0] + length - 1) / length;
      },
      {extent, wanted});
  return {extent, count, (extent + count - 1) / count};
}

// The number of chunks into which the values of a channel are divided: few enough that combining
// them takes no time, and enough to keep a GPU's threads busy. If channels are adjacent in memory,
// a thread reads chunks of four channels; otherwise a group of threads reads one chunk.
std::int64_t wanted_chunks(std::int64_t channels, std::int64_t values, bool channels_last,
                           bool wide) {
  constexpr std::int64_t kWhole = 8192, kMost = 8192;
  constexpr std::int64_t kLength = 4096;  // for CPUs
  if (values <= kWhole) return 1;
  const auto together = [&](int power) {
    return (std::int64_t{1} << power) / std::max<std::int64_t>(channels, 1);
  };
  const std::int64_t chunks = !wide           ? std::min<std::int64_t>(values / kLength, 2048)
                              : channels_last ? std::min(together(19), values / 32)
                                              : std::min(together(16), values / 1024);
  return std::clamp<std::int64_t>(chunks, 1, kMost);
}

// Sums over each channel of x [n, c, ...], computed in chunks.
class Channels {
 public:
  Channels(Lowering& l, Expr x) : l_(l), channels_(x.shape()[1]) {
    const Shape shape = x.shape();
    std::vector<Extent> sizes(shape.begin(), shape.end());
    if (sizes.size() == 2) sizes.push_back(1);
    whole_ = Shape(sizes);
    for (int i = 3; i < whole_.rank(); ++i) rest_ *= whole_[i];
    count_ = whole_[0] * whole_[2] * rest_;
    // A chunk consists of whole images, or of a part of one image cut along its first axis.
    const Extent wanted = plan::evaluated(
        [](std::span<const std::int64_t> a) {
          return wanted_chunks(a[0], a[1], a[2] != 0, a[3] != 0);
        },
        {channels_, count_, l.has_channels_last(x), l.massively_parallel()});
    const Extent images = plan::greater(whole_[0], 1), lines = plan::greater(whole_[2], 1);
    if (wanted == 1) {
      images_ = {whole_[0], 1, whole_[0]};
      lines_ = {whole_[2], 1, whole_[2]};
      return;
    }
    images_ = parts_of(whole_[0], plan::lesser(wanted, images));
    lines_ = parts_of(whole_[2], plan::lesser(plan::greater(wanted / images, 1), lines));
  }

  Extent count() const { return count_; }
  bool in_chunks() const { return images_.count * lines_.count > 1; }

  // Reshapes [n, c, ...] to [chunks of n, n in a chunk, chunks of lines, c, lines in a chunk, ...],
  // padded with zeros.
  Expr cut(Expr x) const {
    std::vector<Extent> sizes(whole_.begin(), whole_.end());
    x = l_.reshape(x, whole_);
    if (!even()) {
      const std::vector<Extent> none(sizes.size(), 0);
      sizes[0] = images_.count * images_.length;
      sizes[2] = lines_.count * lines_.length;
      x = l_.pad(x, none, Shape(sizes), 0);
    }
    std::vector<Extent> split{images_.count, images_.length, channels_, lines_.count,
                              lines_.length};
    split.insert(split.end(), sizes.begin() + 3, sizes.end());
    // Channels come last among the kept axes: if they are adjacent in memory, adjacent threads read
    // them.
    if (lines_.count == 1) {
      std::swap(split[2], split[3]);
      return l_.reshape(x, Shape(split));
    }
    std::vector<std::int64_t> order(split.size());
    std::iota(order.begin(), order.end(), 0);
    std::swap(order[2], order[3]);
    return l_.permute(l_.reshape(x, Shape(split)), order);
  }
  // For each chunk the median of three elements; the axes inside a chunk are kept as 1.
  Expr typical_of(Expr cut) const {
    const Expr a = element_of(cut, 0), b = element_of(cut, 1), c = element_of(cut, 2);
    const Expr low = l_.binary(ScalarOp::minimum, a, b), high = l_.binary(ScalarOp::maximum, a, b);
    return l_.binary(ScalarOp::maximum, low, l_.binary(ScalarOp::minimum, high, c));
  }
  // Sets elements beyond the end of a chunk to 0.
  Expr masked(Expr cut_values) const {
    if (even()) return cut_values;
    const Expr inside = cut(l_.expand(l_.constant(1, DType::boolean), whole_));
    return l_.where(inside, cut_values, literal(l_, 0, cut_values));
  }
  // Sums over each chunk: [chunks of n, chunks of lines, c].
  Expr sum_of_chunks(Expr cut_values) const {
    return l_.reduce(ReduceOp::Sum, cut_values, within(cut_values));
  }
  // The number of elements of each chunk, in a shape that broadcasts with sum_of_chunks.
  Expr lengths(DType dtype) const {
    const Expr whole = l_.size(images_.length * lines_.length * rest_, dtype);
    if (even()) return whole;
    return l_.cast(lengths_along(0, images_) * lengths_along(1, lines_), dtype) *
           l_.size(rest_, dtype);
  }
  // Sums [chunks of n, chunks of lines, c] to [c]. The axis added after the channels keeps such a
  // small reduction from being split in two.
  Expr sum_over_chunks(Expr chunks) const {
    const std::int64_t axes[] = {0, 1, 3};
    const Shape shape = chunks.shape();
    return l_.reduce(ReduceOp::Sum, l_.reshape(chunks, {shape[0], shape[1], shape[2], 1}), axes);
  }
  // The sum over x times a factor for each channel. The chunks' sums are multiplied by the factor,
  // so that one kernel can combine several such sums.
  Expr sum(Expr x, Expr factor) const {
    const Expr chunks = sum_of_chunks(cut(x)) * factor;
    return sum_over_chunks(in_chunks() ? l_.stored(chunks) : chunks);
  }

 private:
  bool even() const { return images_.even() && lines_.even(); }
  // For each chunk the element at `thirds` thirds of every axis, measured by the shortest chunk.
  Expr element_of(Expr cut, std::int64_t thirds) const {
    const Shape from = cut.shape();
    plan::PerAxis<Extent> sizes(from.begin(), from.end()), starts(sizes, 0);
    for (const plan::AxisId axis : within(cut)) {
      Extent common = from[axis];
      if (axis == 1) common = images_.shortest();
      if (axis == 4) common = lines_.shortest();
      starts[axis] = common * thirds / 3;
      sizes[axis] = 1;
    }
    return l_.shrink(cut, starts, Shape(sizes));
  }
  // The axes inside a chunk.
  static std::vector<std::int64_t> within(Expr cut) {
    std::vector<std::int64_t> axes{1};
    for (int i = 4; i < cut.shape().rank(); ++i) axes.push_back(i);
    return axes;
  }
  Expr lengths_along(int axis, const Parts& parts) const {
    const auto size = [&](Extent number) { return l_.size(number, DType::i64); };
    const Expr part = l_.iota({images_.count, lines_.count, channels_}, axis);
    return l_.binary(ScalarOp::minimum, size(parts.length),
                     size(parts.extent) - part * size(parts.length));
  }

  Lowering& l_;
  Extent channels_, count_ = 0, rest_ = 1;
  Shape whole_;
  Parts images_{}, lines_{};
};

// Reshapes [c] to broadcast with x [n, c, ...].
Expr beside(Lowering& l, Expr by_channel, const Shape& x) {
  auto sizes = x.per_axis<Extent>(1);
  sizes[1] = x[1];
  return l.reshape(by_channel, Shape(sizes));
}

struct Statistics {
  Expr mean, variance;
};

Statistics statistics_of(Lowering& l, Expr x, const Channels& channels) {
  const Expr cut = channels.cut(x), typical = channels.typical_of(cut);
  const Expr d = channels.masked(cut - typical);
  // Divides before summing, because a sum of squares overflows long before the variance does.
  const Expr share = literal(l, 1, x) / l.size(channels.count(), x.dtype());
  const Expr sum = channels.sum_of_chunks(d), squares = channels.sum_of_chunks(d * (d * share));
  const Expr lengths = channels.lengths(x.dtype());
  const Expr means = l.reshape(typical, sum.shape()) + sum / lengths;
  const Expr difference =
      l.binary(ScalarOp::maximum, squares - sum / lengths * (sum * share), literal(l, 0, x));
  // If squares overflow, the variance is infinite. It is NaN only if the sum is.
  const Expr overflows = l.binary(ScalarOp::eq, squares, literal(l, HUGE_VAL, x));
  const Expr centred = l.where(overflows, squares + (sum - sum), difference);
  const Shape by_channel{x.shape()[1]};
  if (!channels.in_chunks()) return {l.reshape(means, by_channel), l.reshape(centred, by_channel)};
  l.stored(means);
  l.stored(centred);
  // Measures from the first chunk's mean, for the same reason as above.
  const Extent none[] = {0, 0, 0};
  const Expr start = l.shrink(means, none, {1, 1, by_channel[0]});
  const Expr step = channels.sum_over_chunks((means - start) * lengths);
  const Expr mean = l.reshape(start, by_channel) + step / l.size(channels.count(), x.dtype());
  const Expr between = means - mean;
  return {mean, channels.sum_over_chunks(centred + between * (between * (lengths * share)))};
}

// The reciprocal standard deviation; the input is either that or a variance.
Expr reciprocal(Lowering& l, bool by_batch, Expr given, Expr eps) {
  return by_batch ? given : l.unary(ScalarOp::rsqrt, given + eps);
}

}  // namespace

// Inputs: x, eps, running mean, running variance, momentum.
void batch_stats(Lowering& l) {
  const Expr x = l.in(0);
  const Channels channels(l, x);
  const Statistics of_batch = statistics_of(l, x, channels);
  l.out(0, of_batch.mean);
  l.out(1, l.unary(ScalarOp::rsqrt, of_batch.variance + l.in(1)));
  if (l.inputs() == 2) return;
  const Expr unbiased = of_batch.variance * (l.size(channels.count(), x.dtype()) /
                                             l.size(channels.count() - 1, x.dtype()));
  const Expr momentum = l.in(4), kept = literal(l, 1, momentum) - momentum;
  l.out(2, l.in(2) * kept + of_batch.mean * momentum);
  l.out(3, l.in(3) * kept + unbiased * momentum);
}

// Inputs: x, mean, reciprocal deviation or variance, eps, weight, bias. Attributes: whether the
// statistics are the batch's, whether there is a weight, whether there is a bias.
void batch_norm(Lowering& l) {
  const Expr x = l.in(0);
  const auto attrs = l.attrs();
  Expr scale = reciprocal(l, attrs[0] != 0, l.in(2), l.in(3));
  if (attrs[1] != 0) scale = scale * l.in(4);
  Expr y = (x - beside(l, l.in(1), x.shape())) * beside(l, scale, x.shape());
  if (attrs[2] != 0) y = y + beside(l, l.in(l.inputs() - 1), x.shape());
  l.out(y);
}

// Inputs: gradient, x, mean, reciprocal deviation or variance, eps, weight. Attributes: whether the
// statistics are the batch's, whether there is a weight, and one bit for each wanted gradient: x,
// weight, bias.
void batch_norm_grad(Lowering& l) {
  const Expr g = l.in(0), x = l.in(1);
  const auto attrs = l.attrs();
  const bool by_batch = attrs[0] != 0, weighted = attrs[1] != 0;
  const auto wants = [&](int i) { return (attrs[2] >> i & 1) != 0; };
  const Channels channels(l, x);
  const Expr d = x - beside(l, l.in(2), x.shape());
  const Expr r = reciprocal(l, by_batch, l.in(3), l.in(4));
  const Expr one = literal(l, 1, x), sum = channels.sum(g, one), along = channels.sum(g * d, r);
  int result = 0;
  if (wants(0)) {
    Expr dx = g;
    if (by_batch) {
      // The reciprocal is computed once, so that all points multiply instead of dividing.
      const Expr share = literal(l, 1, x) / l.size(channels.count(), x.dtype());
      dx = dx - beside(l, sum * share, x.shape()) - d * beside(l, along * (r * share), x.shape());
    }
    l.out(result++, dx * beside(l, weighted ? r * l.in(5) : r, x.shape()));
  }
  if (wants(1)) l.out(result++, along);
  if (wants(2)) l.out(result++, sum);
}

}  // namespace volta::graph::expand
