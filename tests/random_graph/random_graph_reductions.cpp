// Extrema, products, steps along axes and joined tensors of the reference, with history.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "random_graph/random_graph_evaluator.h"

namespace volta::random_graph {
namespace {

// Negates values so that their order is reversed; no dtype wraps around.
Array negated(Array x) {
  for (Num& n : x.at) n.v = -n.v;
  return x;
}

// The layout of the elements along an axis: outer blocks of `count` elements that are `inner`
// apart.
struct Lines {
  std::size_t outer = 1, count, inner = 1;
  Lines(const Dims& dims, int axis)
      : count(static_cast<std::size_t>(dims[static_cast<std::size_t>(axis)])) {
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      const auto size = static_cast<std::size_t>(dims[static_cast<std::size_t>(i)]);
      if (i < axis) outer *= size;
      if (i > axis) inner *= size;
    }
  }
  std::size_t at(std::size_t line, std::size_t k) const {
    return (line / inner * count + k) * inner + line % inner;
  }
  std::size_t lines() const { return outer * inner; }
};

// Which elements are the largest of their row; several exact ones share. If a candidate is neither
// exact nor the only one, the result is unknown.
Array is_largest(const Array& x, const Dims& axes) {
  Array least = x;
  for (Num& n : least.at) n = {n.v - n.e, 0};
  const Array bound = expand(max(least, axes, true), x.dims);
  Array chosen(x.dims, x.dtype), inexact(x.dims, x.dtype);
  for (std::size_t i = 0; i < x.at.size(); ++i) {
    const bool candidate = x.at[i].v + x.at[i].e >= bound.at[i].v;
    chosen.at[i].v = candidate ? 1 : 0;
    inexact.at[i].v = candidate && x.at[i].e > 0 ? 1 : 0;
  }
  const Array count = expand(sum(chosen, axes, true), x.dims);
  const Array doubts = expand(sum(inexact, axes, true), x.dims);
  for (std::size_t i = 0; i < x.at.size(); ++i) {
    if (chosen.at[i].v != 0 && count.at[i].v > 1 && doubts.at[i].v > 0) chosen.at[i].e = kUnknown;
  }
  return chosen;
}

// The first known one in each row.
Array first_of(Array chosen, int axis) {
  const Lines along(chosen.dims, axis);
  for (std::size_t line = 0; line < along.lines(); ++line) {
    bool found = false;
    for (std::size_t k = 0; k < along.count; ++k) {
      Num& n = chosen.at[along.at(line, k)];
      if (n.v != 0 && n.e == 0 && std::exchange(found, true)) n.v = 0;
    }
  }
  return chosen;
}

Dims kept(const Array& x, const Dims& axes) {
  Dims dims = x.dims;
  for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis)] = 1;
  return dims;
}

// The product of a row without element `skipped`, in the dtype in which it is computed.
Num product_of(const Array& rows, std::size_t from, std::size_t length, std::size_t skipped) {
  Num product{1, 0};
  const DType inner = inner_of(rows.dtype);
  double large = 0, small = 0;  // exponents of the extreme factors that could be multiplied first
  for (std::size_t i = 0; i < length; ++i) {
    if (i == skipped) continue;
    const Num n = rows.at[from + i];
    if (n.v != 0) (std::fabs(n.v) > 1 ? large : small) += std::log2(std::fabs(n.v));
    const bool known = n.e < kUnknown && product.e < kUnknown;
    const double error = std::fabs(product.v) * n.e + std::fabs(n.v) * product.e + n.e * product.e;
    product = settled({product.v * n.v, known ? error : kUnknown},
                      is_floating(rows.dtype) ? inner : rows.dtype, 1);
  }
  const double limit = inner == DType::f64 ? 1000 : 120;
  if (is_floating(rows.dtype) && (large > limit || small < -limit)) product.e = kUnknown;
  return product;
}

// An order of axes with the reduced ones last.
Dims order_for(const Array& x, const Dims& axes) {
  Dims order;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::count(axes.begin(), axes.end(), i) == 0) order.push_back(i);
  }
  order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

Array product(const Array& x, const Dims& axes, bool keepdim) {
  const Array rows = permute(x, order_for(x, axes));
  const Dims ones = kept(x, axes);
  Array result(ones, x.dtype);
  const std::size_t count = result.at.size(), length = count == 0 ? 0 : x.at.size() / count;
  for (std::size_t i = 0; i < count; ++i)
    result.at[i] = settled(product_of(rows, i * length, length, length), x.dtype, 1);
  if (keepdim) return result;
  Dims dims;
  for (int i = 0; i < x.rank(); ++i) {
    if (std::count(axes.begin(), axes.end(), i) == 0)
      dims.push_back(x.dims[static_cast<std::size_t>(i)]);
  }
  return reshape(result, dims);
}

// For each element the product of the others. A device divides, unless the element is 0; for
// elements near 0 the result is unknown.
Array products_of_others(const Array& x, const Dims& axes) {
  const Dims order = order_for(x, axes);
  Dims inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  const Array rows = permute(x, order);
  Array result(rows.dims, x.dtype);
  std::size_t length = 1;
  for (const std::int64_t axis : axes)
    length *= static_cast<std::size_t>(x.dims[static_cast<std::size_t>(axis)]);
  for (std::size_t i = 0; i < rows.at.size(); ++i) {
    const std::size_t from = i / length * length;
    bool near_zero = false;
    for (std::size_t k = 0; k < length; ++k) {
      const Num& n = rows.at[from + k];
      near_zero = near_zero || (n.e > 0 && std::fabs(n.v) <= 4 * n.e);
    }
    Num others = product_of(rows, from, length, i - from);
    others.e =
        near_zero ? kUnknown : others.e + 4 * unit_of(inner_of(x.dtype)) * std::fabs(others.v);
    result.at[i] = others;
  }
  return permute(result, inverse);
}

Array strided(const Array& x, const Dims& steps) {
  Array result = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t step = steps.at(static_cast<std::size_t>(axis));
    const Array from = result;
    const Lines before(from.dims, axis);
    const std::int64_t size = from.dims[static_cast<std::size_t>(axis)];
    Dims dims = from.dims;
    dims[static_cast<std::size_t>(axis)] = size == 0 ? 0 : (size - 1) / std::abs(step) + 1;
    result = Array(dims, x.dtype);
    const Lines after(dims, axis);
    for (std::size_t line = 0; line < after.lines(); ++line) {
      for (std::size_t k = 0; k < after.count; ++k) {
        const auto walked = static_cast<std::size_t>(std::abs(step)) * k;
        result.at[after.at(line, k)] =
            from.at[before.at(line, step > 0 ? walked : before.count - 1 - walked)];
      }
    }
  }
  return result;
}

// The inverse of a strided read: strides the element numbers to find where each element came from.
Array spaced(const Array& g, const Dims& dims, const Dims& steps) {
  Array numbers(dims, DType::f64), result(dims, g.dtype);
  for (std::size_t i = 0; i < numbers.at.size(); ++i) numbers.at[i].v = static_cast<double>(i);
  const Array from = strided(numbers, steps);
  for (std::size_t i = 0; i < from.at.size(); ++i)
    result.at[static_cast<std::size_t>(from.at[i].v)] = g.at[i];
  return result;
}

}  // namespace

Ref extremum(const Ref& x, const Dims& axes, bool keepdim, bool largest, bool first) {
  const auto turned = [largest](const Array& a) { return largest ? a : negated(a); };
  return recorded(turned(max(turned(x->value), axes, keepdim)), {x},
                  [x = turned(x->value), axes, first](const Array& g) {
                    Array chosen = is_largest(x, axes);
                    const Array spread = expand(reshape(g, kept(x, axes)), x.dims);
                    if (first) {
                      chosen = first_of(std::move(chosen), static_cast<int>(axes[0]));
                      return Pulled{binary(Op::mul, chosen, spread)};
                    }
                    const Array count = expand(sum(chosen, axes, true), x.dims);
                    return Pulled{binary(Op::mul, chosen, binary(Op::div, spread, count))};
                  });
}

Array argmin(const Array& x, int axis, bool keepdim) { return argmax(negated(x), axis, keepdim); }

Ref prod(const Ref& x, const Dims& axes, bool keepdim) {
  const Ref source = cast(x, is_floating(x->value.dtype) ? x->value.dtype : DType::i64);
  return recorded(product(source->value, axes, keepdim), {source},
                  [x = source->value, axes](const Array& g) {
                    const Array spread = expand(reshape(g, kept(x, axes)), x.dims);
                    return Pulled{binary(Op::mul, products_of_others(x, axes), spread)};
                  });
}

Ref stride(const Ref& x, const Dims& steps) {
  if (static_cast<int>(steps.size()) != x->value.rank()) throw Invalid("stride of another rank");
  return recorded(strided(x->value, steps), {x}, [dims = x->value.dims, steps](const Array& g) {
    return Pulled{spaced(g, dims, steps)};
  });
}

Ref concat(const std::vector<Ref>& given, int axis) {
  DType dtype = given[0]->value.dtype;
  for (const Ref& part : given) dtype = promoted(dtype, part->value.dtype);
  std::vector<Ref> parts;
  for (const Ref& part : given) parts.push_back(cast(part, dtype));
  const std::size_t at = static_cast<std::size_t>(axis);
  Dims dims = parts[0]->value.dims;
  if (at >= dims.size()) throw Invalid("no such axis");
  std::int64_t whole = 0;
  std::vector<std::int64_t> starts;
  for (const Ref& part : parts) {
    Dims other = part->value.dims;
    if (other.size() != dims.size()) throw Invalid("concat of other ranks");
    starts.push_back(whole);
    whole += other[at];
    other[at] = dims[at];
    if (other != dims) throw Invalid("concat does not fit");
  }
  dims[at] = whole;
  Array joined(dims, dtype);
  const Lines to(dims, axis);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Lines from(parts[p]->value.dims, axis);
    for (std::size_t line = 0; line < from.lines(); ++line) {
      for (std::size_t k = 0; k < from.count; ++k) {
        joined.at[to.at(line, static_cast<std::size_t>(starts[p]) + k)] =
            parts[p]->value.at[from.at(line, k)];
      }
    }
  }
  std::vector<std::int64_t> sizes;
  for (const Ref& part : parts) sizes.push_back(part->value.dims[at]);
  return recorded(joined, parts, [axis, starts, sizes](const Array& g) {
    Pulled pulled;
    for (std::size_t i = 0; i < starts.size(); ++i)
      pulled.push_back(narrow(g, axis, starts[i], sizes[i]));
    return pulled;
  });
}

}  // namespace volta::random_graph
