// Views, reductions and products of the reference evaluator: strided reads and plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "random_graph/random_graph_array.h"

namespace volta::random_graph {
namespace {

// A strided view of an array: element `index` is at offset + index . strides.
struct Strided {
  Dims dims, strides;
  std::int64_t offset = 0;
};

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  std::int64_t next = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = next;
    next *= dims[i];
  }
  return strides;
}

// Calls body(offset) for every index in row-major order.
template <class Body>
void walk(const Strided& view, Body body) {
  const std::int64_t count = numel_of(view.dims);
  Dims index(view.dims.size(), 0);
  std::int64_t offset = view.offset;
  for (std::int64_t n = 0; n < count; ++n) {
    body(offset);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      offset += view.strides[axis];
      if (++index[axis] < view.dims[axis]) break;
      offset -= view.strides[axis] * view.dims[axis];
      index[axis] = 0;
    }
  }
}

Array read(const Array& x, const Strided& view) {
  Array result(view.dims, x.dtype);
  std::size_t next = 0;
  walk(view,
       [&](std::int64_t offset) { result.at[next++] = x.at[static_cast<std::size_t>(offset)]; });
  return result;
}

Dims without(const Dims& dims, const Dims& axes, bool keepdim) {
  Dims result;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool gone = std::count(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) > 0;
    if (!gone || keepdim) result.push_back(gone ? 1 : dims[i]);
  }
  return result;
}

// Calls fold(first element, number of elements) for each row of the reduced axes.
template <class Fold>
Array folded(const Array& x, const Dims& axes, bool keepdim, DType dtype, Fold fold) {
  Dims order;
  std::int64_t length = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::count(axes.begin(), axes.end(), i) == 0) order.push_back(i);
  }
  for (const std::int64_t axis : axes) {
    order.push_back(axis);
    length *= x.dims[static_cast<std::size_t>(axis)];
  }
  const Array rows = permute(x, order);
  Array result(without(x.dims, axes, keepdim), dtype);
  for (std::size_t i = 0; i < result.at.size(); ++i)
    result.at[i] = fold(rows.at.data() + i * static_cast<std::size_t>(length), length);
  return result;
}

}  // namespace

void Sum::add(double value, double error) {
  value_ += value;  // in a wider type than the compared one
  error_ += error;
  sizes_ += std::fabs(value);
  whole_ = whole_ && value == std::nearbyint(value);
  ++terms_;
}

Num Sum::in(DType dtype, int roundings, int chain) const {
  Num total{static_cast<double>(value_), error_};
  if (!is_floating(dtype)) return settled(total, dtype, 0);
  const DType inner = inner_of(dtype);
  const bool exact = whole_ && error_ == 0 && sizes_ < 0x1p24;
  if (!exact && terms_ + roundings > 1)
    total.e += (std::min(terms_, chain) + roundings) * unit_of(inner) * sizes_;
  total = settled(total, inner, exact ? 0 : 1);
  return inner == dtype ? total : settled(total, dtype, 1);
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= result.size(); ++i) {
    const std::int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1) throw Invalid("shapes do not broadcast");
    result[result.size() - i] = x == 1 ? y : x;
  }
  return result;
}

Array reshape(const Array& x, const Dims& dims) {
  if (numel_of(dims) != x.numel()) throw Invalid("reshape changes the number of elements");
  Array result = x;
  result.dims = dims;
  return result;
}

Array permute(const Array& x, const Dims& order) {
  if (order.size() != x.dims.size()) throw Invalid("permute of another rank");
  const Dims strides = strides_of(x.dims);
  Strided view;
  for (const std::int64_t axis : order) {
    view.dims.push_back(x.dims.at(static_cast<std::size_t>(axis)));
    view.strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  return read(x, view);
}

Array expand(const Array& x, const Dims& dims) {
  if (dims == x.dims) return x;
  if (dims.size() < x.dims.size()) throw Invalid("expand to fewer axes");
  const Dims strides = strides_of(x.dims);
  Strided view{dims, Dims(dims.size(), 0), 0};
  for (std::size_t i = 1; i <= x.dims.size(); ++i) {
    const std::int64_t own = x.dims[x.dims.size() - i], wanted = dims[dims.size() - i];
    if (own != wanted && own != 1) throw Invalid("expand does not fit");
    view.strides[dims.size() - i] = own == 1 ? 0 : strides[x.dims.size() - i];
  }
  return read(x, view);
}

Array narrow(const Array& x, int axis, std::int64_t start, std::int64_t length) {
  const std::size_t at = static_cast<std::size_t>(axis);
  if (at >= x.dims.size() || start + length > x.dims[at]) throw Invalid("narrow leaves the axis");
  Strided view{x.dims, strides_of(x.dims), 0};
  view.dims[at] = length;
  view.offset = start * view.strides[at];
  return read(x, view);
}

Array pad(const Array& x, const Dims& before, const Dims& after, double value) {
  if (before.size() != x.dims.size() || after.size() != x.dims.size())
    throw Invalid("pad of another rank");
  Dims dims = x.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] += before[i] + after[i];
  Array result = filled(dims, value, x.dtype);
  Strided inside{x.dims, strides_of(dims), 0};
  for (std::size_t i = 0; i < dims.size(); ++i) inside.offset += before[i] * inside.strides[i];
  std::size_t next = 0;
  walk(inside,
       [&](std::int64_t offset) { result.at[static_cast<std::size_t>(offset)] = x.at[next++]; });
  return result;
}

Array sum_to(const Array& x, const Dims& dims) {
  if (x.dims == dims) return x;
  const std::size_t added = x.dims.size() - dims.size();
  Dims axes;
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (i < added || (dims[i - added] == 1 && x.dims[i] != 1))
      axes.push_back(static_cast<std::int64_t>(i));
  }
  return reshape(sum(x, axes, false), dims);
}

Dims all_axes(const Array& x) {
  Dims axes(x.dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Array sum(const Array& x, const Dims& axes, bool keepdim) {
  return folded(x, axes, keepdim, x.dtype, [&](const Num* row, std::int64_t n) {
    Sum total;
    for (std::int64_t i = 0; i < n; ++i) total.add(row[i].v, row[i].e);
    return total.in(x.dtype);
  });
}

Array max(const Array& x, const Dims& axes, bool keepdim) {
  for (const std::int64_t axis : axes) {
    if (x.dims.at(static_cast<std::size_t>(axis)) == 0) throw Invalid("max of nothing");
  }
  return folded(x, axes, keepdim, x.dtype, [](const Num* row, std::int64_t n) {
    Num best = row[0];
    for (std::int64_t i = 1; i < n; ++i) {
      if (row[i].v > best.v) best.v = row[i].v;
      best.e = std::max(best.e, row[i].e);
    }
    return best;
  });
}

Array argmax(const Array& x, int axis, bool keepdim) {
  if (x.dims.at(static_cast<std::size_t>(axis)) == 0) throw Invalid("argmax of nothing");
  return folded(x, {axis}, keepdim, DType::i64, [](const Num* row, std::int64_t n) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) {
      if (row[i].v > row[best].v) best = i;
    }
    double error = 0;  // the first of equal exact values counts
    for (std::int64_t i = 0; i < n; ++i) {
      const double slack = row[i].e + row[best].e;
      if (i != best && slack > 0 && row[best].v - row[i].v <= slack) error = kUnknown;
    }
    return Num{static_cast<double>(best), error};
  });
}

Array mean(const Array& x, const Dims& axes, bool keepdim) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= x.dims.at(static_cast<std::size_t>(axis));
  const DType inner = inner_of(x.dtype);
  const Array total = sum(cast(x, inner), axes, keepdim);
  return cast(binary(Op::div, total, filled({}, static_cast<double>(count), inner)), x.dtype);
}

Array transposed(const Array& x) {
  Dims order = all_axes(x);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permute(x, order);
}

Array matmul(const Array& a, const Array& b) {
  const std::size_t ra = a.dims.size(), rb = b.dims.size();
  const std::int64_t m = a.dims[ra - 2], k = a.dims[ra - 1], n = b.dims[rb - 1];
  if (b.dims[rb - 2] != k) throw Invalid("inner dimensions differ");
  Dims batch = broadcast({a.dims.begin(), a.dims.end() - 2}, {b.dims.begin(), b.dims.end() - 2});
  Dims da = batch, db = batch, dims = batch;
  da.insert(da.end(), {m, k});
  db.insert(db.end(), {k, n});
  dims.insert(dims.end(), {m, n});
  const Array x = expand(a, da), y = expand(b, db);
  Array result(dims, a.dtype);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const std::int64_t column = i % n, row = i / n, matrix = row / m;
    Sum total;
    for (std::int64_t j = 0; j < k; ++j) {
      const Num p = x.at[static_cast<std::size_t>(row * k + j)];
      const Num q = y.at[static_cast<std::size_t>((matrix * k + j) * n + column)];
      const bool known = p.e < kUnknown && q.e < kUnknown;
      total.add(p.v * q.v,
                known ? std::fabs(p.v) * q.e + std::fabs(q.v) * p.e + p.e * q.e : kUnknown);
    }
    result.at[static_cast<std::size_t>(i)] = total.in(a.dtype, 1);
  }
  return result;
}

Array gather(const Array& table, const Array& ids) {
  if (table.rank() != 2) throw Invalid("embedding of another rank");
  const std::int64_t width = table.dims[1];
  Dims dims = ids.dims;
  dims.push_back(width);
  Array result(dims, table.dtype);
  for (std::size_t i = 0; i < ids.at.size(); ++i) {
    const Num id = ids.at[i];
    if (id.e > 0 || id.v < 0 || id.v >= static_cast<double>(table.dims[0]))
      throw Invalid("an index is out of range or not known");
    const std::int64_t row = static_cast<std::int64_t>(id.v);
    for (std::int64_t j = 0; j < width; ++j) {
      result.at[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(j)] =
          table.at[static_cast<std::size_t>(row * width + j)];
    }
  }
  return result;
}

Array scatter(const Array& rows, const Array& ids, const Dims& dims) {
  const std::size_t width = static_cast<std::size_t>(dims[1]);
  Array result(dims, rows.dtype);
  std::vector<Sum> totals(result.at.size());
  for (std::size_t k = 0; k < ids.at.size(); ++k) {
    const Num id = ids.at[k];
    if (id.e > 0 || id.v < 0 || id.v >= static_cast<double>(dims[0]))
      throw Invalid("an index is out of range or not known");
    for (std::size_t i = 0; i < width; ++i) {
      const Num n = rows.at[k * width + i];
      totals[static_cast<std::size_t>(id.v) * width + i].add(n.v, n.e);
    }
  }
  for (std::size_t i = 0; i < totals.size(); ++i) result.at[i] = totals[i].in(rows.dtype);
  return result;
}

Array softmax(const Array& x, int axis) {
  const Array wide = cast(x, inner_of(x.dtype));
  const Array e = unary(Op::exp, binary(Op::sub, wide, max(wide, {axis}, true)));
  return cast(binary(Op::div, e, sum(e, {axis}, true)), x.dtype);
}

Array log_softmax(const Array& x, int axis) {
  const Array wide = cast(x, inner_of(x.dtype));
  const Array shifted = binary(Op::sub, wide, max(wide, {axis}, true));
  const Array total = sum(unary(Op::exp, shifted), {axis}, true);
  return cast(binary(Op::sub, shifted, unary(Op::log, total)), x.dtype);
}

}  // namespace volta::random_graph
