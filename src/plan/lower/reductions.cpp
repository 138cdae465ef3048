// Builders of reductions and running sums. Long ones with few results are split into chunks.
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "plan/lower/builder.h"
#include "plan/lower/split.h"

namespace volta::plan {

using kernel::ReduceOp;
using kernel::ScalarOp;

namespace {

bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }

// The identity of the reduction: a number, usable in kernels, that changes no result when it comes
// last.
std::optional<double> identity(ReduceOp op, DType dtype) {
  if (op == ReduceOp::Sum) return 0;
  if (op == ReduceOp::Prod) return 1;
  const bool max = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  switch (dtype) {
    case DType::boolean:
      return max ? 0 : 1;
    case DType::u8:
      return max ? 0 : 255;
    case DType::i32:
      return max ? std::numeric_limits<std::int32_t>::min()
                 : std::numeric_limits<std::int32_t>::max();
    case DType::i64:
      return std::nullopt;  // too large for a double
    default:
      return max ? -std::numeric_limits<double>::infinity()
                 : std::numeric_limits<double>::infinity();
  }
}

// The largest divisor of the extent that is at most `most`.
Extent largest_divisor(Extent extent, Extent most) {
  return evaluated(
      [](std::span<const std::int64_t> a) {
        std::int64_t count = std::max(a[1], INT64_C(1));
        while (a[0] % count != 0) --count;
        return count;
      },
      {extent, most});
}

}  // namespace

Expr ValueBuilder::reduce(ReduceOp op, Expr a, std::span<const std::int64_t> axes, bool keepdim) {
  const Shape full = a.shape();
  auto reduced = full.per_axis<bool>(false);
  for (const AxisId axis : axes) reduced[axis] = true;
  std::vector<Extent> kept, with_ones;
  bool unit = true;
  for (int i = 0; i < full.rank(); ++i) {
    const bool gone = reduced[i];
    if (!gone) kept.push_back(full[i]);
    if (gone && full[i] != 1) unit = false;
    with_ones.push_back(gone ? Extent(1) : full[i]);
  }
  const Shape result = keepdim ? Shape(with_ones) : Shape(kept);
  const bool arg = is_arg(op);
  if (is_half(a.dtype())) {
    return in_f32(reduce(op, cast(a, DType::f32), axes, keepdim), arg ? DType::i64 : a.dtype());
  }
  // Over axes of size 1 (or no axes) there is nothing to reduce.
  if (unit) return arg ? expand(constant(0, DType::i64), result) : reshape(a, result);
  if (const Expr one = repeated_number(a); !one.is_none() && full.numel() > 0)
    return expand(reduce_repeated(op, one, full.numel() / result.numel()), result);
  if (const Expr split = split_reduce(op, a, reduced); !split.is_none())
    return reshape(split, result);
  if (const Expr split = split_apart(op, a, reduced); !split.is_none())
    return reshape(split, result);
  Value value{
      .kind = ValueKind::Reduce, .dtype = arg ? DType::i64 : a.dtype(), .shape = Shape(kept)};
  value.reduce = op;
  value.in[0] = a.id;
  for (int i = 0; i < full.rank(); ++i) {
    if (reduced[i]) value.attrs.push_back(i);
  }
  return reshape(insert(std::move(value)), result);
}

// The number that all elements are equal to; none if the value is not a repeated number.
Expr ValueBuilder::repeated_number(Expr a) {
  const Expr one{this, behind_expand(values_, a.id)};
  ValueId source = one.id;
  while (values_[source].kind == ValueKind::Cast)
    source = behind_expand(values_, values_[source].in[0]);
  const ValueKind kind = values_[source].kind;
  const bool number = kind == ValueKind::Const || kind == ValueKind::Arg;
  return number && one.shape().numel() == 1 ? reshape(one, Shape{}) : Expr{};
}

// Reduces `count` copies of a number in closed form, without adding them up.
Expr ValueBuilder::reduce_repeated(ReduceOp op, Expr one, Extent count) {
  if (is_arg(op)) return constant(0, DType::i64);
  if (op == ReduceOp::Max || op == ReduceOp::Min) return one;
  if (op == ReduceOp::Sum) return one * size(count, one.dtype());
  // The exponent may be rounded, but its parity may not.
  const Expr power =
      binary(ScalarOp::pow, unary(ScalarOp::abs, one), size(count - count % 2, one.dtype()));
  return count % 2 == 0 ? power : power * one;
}

// Reduces one axis and removes it from the shape.
Expr ValueBuilder::insert_reduce(ReduceOp op, Expr a, std::int64_t axis) {
  Value value{.kind = ValueKind::Reduce,
              .dtype = is_arg(op) ? DType::i64 : a.dtype(),
              .shape = a.shape().removed(static_cast<int>(axis))};
  value.reduce = op;
  value.in[0] = a.id;
  value.attrs = {axis};
  return insert(std::move(value));
}

// Splits a long reduction with few results in two: chunks in parallel, then their results. The
// number of chunks depends only on the extents, so the tree of additions does too.
Expr ValueBuilder::split_reduce(ReduceOp op, Expr a, const PerAxis<bool>& reduced) {
  const Shape full = a.shape();
  int first = 0, last = full.rank();
  while (!reduced[first]) ++first;
  while (!reduced[last - 1]) --last;
  Extent before = 1, extent = 1, after = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (i >= first && i < last && !reduced[i]) return {};
    (i < first ? before : i < last ? extent : after) *= full[i];
  }
  const Extent results = before * after;
  if (results == 0) return {};
  Extent chunks = open_reduction_chunks(extent, results, after == 1, massively_parallel());
  if (chunks <= 1) return {};
  if (!massively_parallel()) chunks = open_even_chunks(extent, chunks, 1);
  Extent length = (extent + chunks - 1) / chunks;
  if (massively_parallel() && after == 1) {  // chunks start where vectors can
    length = (length + kChunkUnit - 1) / kChunkUnit * kChunkUnit;
    chunks = (extent + length - 1) / length;
  }
  Expr x = reshape(a, {before, extent, after});
  const Extent none[] = {0, 0, 0};
  if (length * chunks != extent) {
    const std::optional<double> filler = identity(op, a.dtype());
    if (!filler) return {};
    x = pad(x, none, {before, length * chunks, after}, *filler);
  }
  x = reshape(x, {before, chunks, length, after});
  if (!is_arg(op)) return insert_reduce(op, insert_reduce(op, x, 2), 1);
  // Finds the first best chunk, and the position within it.
  const Expr values = insert_reduce(op == ReduceOp::ArgMax ? ReduceOp::Max : ReduceOp::Min, x, 2);
  const Expr within = insert_reduce(op, x, 2), best = insert_reduce(op, values, 1);
  const Expr chosen =
      binary(ScalarOp::eq, iota(values.shape(), 1), reshape(best, {before, 1, after}));
  const Expr position =
      insert_reduce(ReduceOp::Sum, where(chosen, within, constant(0, DType::i64)), 1);
  return best * size(length, DType::i64) + position;
}

// Splits a reduction whose axes are not adjacent, such as those of images around their channels.
Expr ValueBuilder::split_apart(ReduceOp op, Expr a, const PerAxis<bool>& reduced) {
  if (!massively_parallel() || is_arg(op)) return {};
  const Shape full = a.shape();
  Extent extent = 1, results = 1;
  int runs = 0;
  for (int i = 0; i < full.rank(); ++i) {
    const bool gone = reduced[i];
    (gone ? extent : results) *= full[i];
    if (!gone || (i > 0 && reduced[i - 1])) continue;
    if (full[i] == 1) return {};  // an axis of size 1 was inserted to get a single kernel
    ++runs;
  }
  if (runs < 2 || results == 0) return {};
  Extent wanted = open_reduction_chunks(extent, results, false, massively_parallel());
  if (wanted <= 1) return {};
  // All of the outer axes, then parts of an inner one, in parallel. Views allow such a split
  // whatever the order of their axes in memory.
  std::vector<Extent> split;
  std::vector<std::int64_t> parts, kept, within;
  Extent chunks = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (!reduced[i]) {
      kept.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(full[i]);
      continue;
    }
    const Extent count = largest_divisor(full[i], lesser(full[i], wanted));
    wanted = (wanted + count - 1) / count;
    chunks *= count;
    if (count > 1) {
      parts.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(count);
    }
    if (count < full[i]) {
      within.push_back(static_cast<std::int64_t>(split.size()));
      split.push_back(full[i] / count);
    }
  }
  if (chunks == 1 || split.size() > kMaxRank) return {};
  std::vector<std::int64_t> order = parts;
  order.insert(order.end(), kept.begin(), kept.end());
  order.insert(order.end(), within.begin(), within.end());
  std::vector<std::int64_t> inner(within.size());
  std::iota(inner.begin(), inner.end(), static_cast<std::int64_t>(parts.size() + kept.size()));
  const Expr partial = reduce(op, permute(reshape(a, Shape(split)), order), inner, false);
  const std::int64_t outer[] = {0};
  return reduce(op, reshape(partial, {chunks, results}), outer, false);
}

Expr ValueBuilder::reduce_segments(ReduceOp op, Expr a, std::int64_t axis, Expr bound) {
  Value value{.kind = ValueKind::Reduce,
              .dtype = a.dtype(),
              .shape = a.shape().removed(static_cast<int>(axis))};
  value.reduce = op;
  value.in = {a.id, expand(bound, value.shape).id, -1};
  value.attrs = {axis};
  return insert(std::move(value));
}

Expr ValueBuilder::insert_scan(Expr a, std::int64_t axis, bool reverse, Expr start) {
  Value value{.kind = ValueKind::Scan, .dtype = a.dtype(), .shape = a.shape()};
  value.in = {a.id, start.id, -1};
  value.attrs = {axis, reverse};
  return insert(std::move(value));
}

// Splits a long axis into chunks as reductions do. The sums of the chunks are scanned first, and
// every chunk starts from the sum of those before it.
Expr ValueBuilder::scan(Expr a, std::int64_t axis, bool reverse) {
  const Shape full = a.shape();
  const Extent extent = full[static_cast<int>(axis)];
  if (extent <= 1 || full.numel() == 0) return a;
  // Sequential additions lose a digit per hundred elements; f64 is as fast on the CPU.
  if (a.dtype() == DType::f32 && !massively_parallel())
    return cast(scan(cast(a, DType::f64), axis, reverse), DType::f32);
  Extent before = 1, after = 1;
  for (int i = 0; i < full.rank(); ++i) {
    if (i < axis) before *= full[i];
    if (i > axis) after *= full[i];
  }
  Extent chunks = open_reduction_chunks(extent, before * after, after == 1, massively_parallel());
  if (chunks <= 1) return insert_scan(a, axis, reverse, {});
  // Chunk lengths that divide the axis need no padding.
  const Extent length = evaluated(
      [](std::span<const std::int64_t> a) {
        const std::int64_t least = (a[0] + a[1] - 1) / std::max(a[1], INT64_C(1));
        std::int64_t fitting = least;
        for (std::int64_t other = least; other > 0 && other < 2 * least; ++other) {
          if (a[0] % other == 0) fitting = other;
        }
        return fitting;
      },
      {extent, chunks});
  chunks = (extent + length - 1) / length;
  const Extent none[] = {0, 0, 0};
  const std::int64_t inner = 2, first = reverse ? 1 : 0;
  const Extent later[] = {0, 1 - first, 0}, from[] = {0, first, 0};
  Expr x = reshape(a, {before, extent, after});
  x = pad(x, none, {before, chunks * length, after}, 0);
  x = reshape(x, {before, chunks, length, after});
  const Expr sums = reduce(ReduceOp::Sum, x, {&inner, 1});
  const Expr up_to = insert_scan(sums, 1, reverse, {});
  const Expr start =
      pad(shrink(up_to, from, {before, chunks - 1, after}), later, {before, chunks, after}, 0);
  const Expr all = reshape(insert_scan(x, 2, reverse, start), {before, chunks * length, after});
  return reshape(shrink(all, none, {before, extent, after}), full);
}

}  // namespace volta::plan
