// Running sums, sorting and indexing along an axis in the reference, with gradients. For inexact
// values the order is known only as far as their bounds determine it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "random_graph/random_graph_evaluator.h"

namespace volta::random_graph {
namespace {

using Pulled = std::vector<std::optional<Array>>;

// An array as [before, extent, after] around an axis.
struct Around {
  std::size_t before = 1, extent = 1, after = 1;
  Around(const Dims& dims, int axis) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(axis);
      (i < at ? before : i == at ? extent : after) *= static_cast<std::size_t>(dims[i]);
    }
  }
  // The element number of position `i` of a line along the axis.
  std::size_t at(std::size_t line, std::size_t i) const {
    return (line / after * extent + i) * after + line % after;
  }
  std::size_t lines() const { return before * after; }
};

// Adds sequentially.
Array running_sum(const Array& x, int axis, bool reverse) {
  const Around around(x.dims, axis);
  Array result(x.dims, x.dtype);
  for (std::size_t line = 0; line < around.lines(); ++line) {
    Sum total;
    for (std::size_t i = 0; i < around.extent; ++i) {
      const std::size_t at = around.at(line, reverse ? around.extent - 1 - i : i);
      total.add(x.at[at].v, x.at[at].e);
      result.at[at] = total.in(x.dtype, 0, static_cast<int>(around.extent));
    }
  }
  return result;
}

// A sorted line: for each position its element, its value, and the positions that the element may
// have on a device.
struct Line {
  struct SourceLocation {
    std::size_t element = 0;
    Num value;
    std::size_t lowest = 0, highest = 0;
  };
  std::vector<SourceLocation> places;
};

// Exact and equal elements keep their order. The bounds are those of the comparison: twice the
// error.
Line in_order(const std::vector<Num>& row, bool descending) {
  const std::size_t n = row.size();
  const double sign = descending ? -1 : 1;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sign * row[a].v < sign * row[b].v; });
  using Bound = std::pair<double, double>;  // a bound, then the position if the value is exact
  const auto lowest_of = [&](std::size_t i) {
    return Bound{sign * row[i].v - 2 * row[i].e, row[i].e == 0 ? static_cast<double>(i) : -1};
  };
  const auto highest_of = [&](std::size_t i) {
    return Bound{sign * row[i].v + 2 * row[i].e, static_cast<double>(row[i].e == 0 ? i : n)};
  };
  std::vector<Bound> low(n), high(n);
  for (std::size_t i = 0; i < n; ++i) {
    low[i] = lowest_of(i);
    high[i] = highest_of(i);
  }
  std::sort(low.begin(), low.end());
  std::sort(high.begin(), high.end());
  Line line;
  for (std::size_t p = 0; p < n; ++p) {
    Line::SourceLocation place;
    place.element = order[p];
    place.lowest = static_cast<std::size_t>(
        std::lower_bound(high.begin(), high.end(), lowest_of(order[p])) - high.begin());
    place.highest = static_cast<std::size_t>(
        std::upper_bound(low.begin(), low.end(), highest_of(order[p])) - low.begin() - 1);
    // The p-th smallest value lies between the p-th smallest bounds.
    const double v = sign * row[order[p]].v;
    place.value = {row[order[p]].v, std::max(high[p].first - v, v - low[p].first) / 2};
    line.places.push_back(place);
  }
  return line;
}

std::size_t id_of(const Num& id, std::size_t extent) {
  if (id.e > 0 || id.v < 0 || id.v >= static_cast<double>(extent))
    throw Invalid("an index is out of range or not known");
  return static_cast<std::size_t>(id.v);
}

void require_ids(const Ref& index) {
  if (!is_integral(index->value.dtype) || index->value.dtype == DType::boolean)
    throw Invalid("indices that are no integers");
}

}  // namespace

Ref cumsum(const Ref& x, int axis) {
  const Ref source = cast(x, is_floating(x->value.dtype) ? x->value.dtype : DType::i64);
  return recorded(running_sum(source->value, axis, false), {source},
                  [axis](const Array& g) { return Pulled{running_sum(g, axis, true)}; });
}

Ordered sort(const Ref& x, int axis, std::int64_t count, bool descending) {
  Dims dims = x->value.dims;
  dims[static_cast<std::size_t>(axis)] = count;
  const Around from(x->value.dims, axis), to(dims, axis);
  Array values(dims, x->value.dtype), positions(dims, DType::i64);
  std::vector<Line> lines;
  std::vector<Num> row(from.extent);
  for (std::size_t line = 0; line < from.lines(); ++line) {
    for (std::size_t i = 0; i < from.extent; ++i) row[i] = x->value.at[from.at(line, i)];
    lines.push_back(in_order(row, descending));
    for (std::size_t p = 0; p < to.extent; ++p) {
      const Line::SourceLocation& place = lines.back().places[p];
      values.at[to.at(line, p)] = place.value;
      positions.at[to.at(line, p)] = {static_cast<double>(place.element),
                                      place.lowest == place.highest ? 0 : kUnknown};
    }
  }
  // An element gets the gradient of its position, or of one of several if that is uncertain.
  const auto pull = [lines = std::move(lines), from, to, whole = x->value.dims](const Array& g) {
    Array result(whole, g.dtype);
    for (std::size_t line = 0; line < lines.size(); ++line) {
      const auto gradient_at = [&](std::size_t p) {
        return p < to.extent ? g.at[to.at(line, p)] : Num{};
      };
      for (std::size_t p = 0; p < from.extent; ++p) {
        const Line::SourceLocation& place = lines[line].places[p];
        Num& n = result.at[from.at(line, place.element)];
        n = gradient_at(p);
        const double v = n.v;
        for (std::size_t q = place.lowest; q <= place.highest && n.e < kUnknown; ++q) {
          const Num other = gradient_at(q);
          n.e = std::max(n.e, std::fabs(other.v - v) + other.e);
        }
      }
    }
    return Pulled{result};
  };
  return {recorded(std::move(values), {x}, pull), constant(std::move(positions))};
}

Ref take_along_axis(const Ref& x, const Ref& index, int axis) {
  require_ids(index);
  Dims dims = index->value.dims;
  if (dims.size() != x->value.dims.size()) throw Invalid("take_along_axis of another rank");
  dims[static_cast<std::size_t>(axis)] = x->value.dims[static_cast<std::size_t>(axis)];
  if (dims != x->value.dims) throw Invalid("take_along_axis does not fit");
  const Around from(x->value.dims, axis), to(index->value.dims, axis);
  Array value(index->value.dims, x->value.dtype);
  std::vector<std::size_t> taken(value.at.size());
  for (std::size_t line = 0; line < to.lines(); ++line) {
    for (std::size_t i = 0; i < to.extent; ++i) {
      const std::size_t at = to.at(line, i);
      taken[at] = from.at(line, id_of(index->value.at[at], from.extent));
      value.at[at] = x->value.at[taken[at]];
    }
  }
  return recorded(std::move(value), {x, index}, [taken, dims](const Array& g) {
    Array result(dims, g.dtype);
    std::vector<Sum> totals(result.at.size());
    for (std::size_t i = 0; i < taken.size(); ++i) totals[taken[i]].add(g.at[i].v, g.at[i].e);
    for (std::size_t i = 0; i < totals.size(); ++i) result.at[i] = totals[i].in(g.dtype);
    return Pulled{result, std::nullopt};
  });
}

Ref index_add(const Ref& x, const Ref& index, const Ref& source) {
  require_ids(index);
  const Dims dims = x->value.dims, rows = source->value.dims;
  if (dims.empty() || dims[0] == 0 || index->value.rank() != 1) throw Invalid("rows do not fit");
  Dims wanted = dims;
  wanted[0] = index->value.dims[0];
  if (rows != wanted || source->value.dtype != x->value.dtype || x->value.dtype == DType::boolean)
    throw Invalid("rows do not fit");
  const Dims flat{dims[0], x->value.numel() / dims[0]};
  const Array ids = index->value;
  const Array sums = scatter(reshape(source->value, {rows[0], flat[1]}), ids, flat);
  return recorded(binary(Op::add, x->value, reshape(sums, dims)), {x, index, source},
                  [ids, flat, rows](const Array& g) {
                    return Pulled{g, std::nullopt, reshape(gather(reshape(g, flat), ids), rows)};
                  });
}

}  // namespace volta::random_graph
