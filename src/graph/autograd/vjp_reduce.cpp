// Gradients of reductions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

// The shape with size 1 on the reduced axes.
Shape with_ones(const Shape& shape, std::span<const std::int64_t> axes) {
  Shape result = shape;
  for (const std::int64_t axis : axes) result = result.with(static_cast<int>(axis), 1);
  return result;
}

// Reshapes a reduced value to size 1 on the reduced axes, so that it broadcasts against the input.
Tensor beside(const Vjp& v, const Tensor& reduced, std::span<const std::int64_t> axes) {
  return reshape_to(reduced, with_ones(v.shape(0), axes), v.place());
}

// Broadcasts a reduced value to the input's shape.
Tensor spread(const Vjp& v, const Tensor& reduced) {
  return expand_to(beside(v, reduced, v.attrs()), v.shape(0), v.place());
}

double reduced_count(const Vjp& v) {
  return static_cast<double>(v.shape(0).numel()) /
         static_cast<double>(std::max<std::int64_t>(v.output_shape().numel(), 1));
}

// The attributes of a reduction whose first attribute is a number: the number, and the axes.
double first_number(const Vjp& v) { return std::bit_cast<double>(v.attr(0)); }
std::span<const std::int64_t> other_axes(const Vjp& v) { return v.attrs().subspan(1); }

// a / b, or 0 where b is 0. Its own gradients are finite there too.
Tensor divided(const Tensor& a, const Tensor& b) {
  const Tensor nothing = b.eq(0);
  return where(nothing, 0, a / where(nothing, 1, b));
}

// The share of the gradient that each element gets: equal shares among the chosen elements. A NaN
// result chooses all NaNs.
Tensor shares(const Vjp& v, const Tensor& x, const Tensor& result,
              std::span<const std::int64_t> axes) {
  const Tensor chosen = x.eq(beside(v, result, axes)).logical_or(x.isnan()).to(x.dtype());
  return chosen / sum_axes(chosen, axes, true, v.place());
}

// For rows [rows, n], the product of all other elements of the row, for each element. Blocks keep
// the work linear in n. There is no division, so gradients of any order are correct where elements
// are 0.
Tensor products_of_others(const Tensor& x, SourceLocation place) {
  constexpr std::int64_t kBlock = 16;
  const std::int64_t rows = x.shape()[0], n = x.shape()[1];
  if (n <= kBlock) {
    const Tensor column = arange(n, {.device = x.device()}, place);
    const Tensor own = reshape_to(column, {n, 1}, place).eq(column);
    return where(own, 1, reshape_to(x, {rows, 1, n}, place)).prod(2, false, place);
  }
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  const std::int64_t none[] = {0, 0}, rest[] = {0, blocks * kBlock - n};
  const Tensor cut = reshape_to(pad(x, none, rest, 1, place), {rows * blocks, kBlock}, place);
  const Tensor outside =
      products_of_others(reshape_to(cut.prod(1, false, place), {rows, blocks}, place), place);
  const Tensor all =
      products_of_others(cut, place) * reshape_to(outside, {rows * blocks, 1}, place);
  return reshape_to(all, {rows, blocks * kBlock}, place).narrow(1, 0, n, place);
}

// The permutation that merges the reduced axes into a last one, and its inverse.
struct Rows {
  std::vector<std::int64_t> order, inverse, sizes;
  std::int64_t rows = 1, length = 1;

  explicit Rows(const Vjp& v)
      : inverse(v.attrs().size() + static_cast<std::size_t>(v.output_shape().rank())) {
    const auto is_reduced = [&](int axis) {
      return std::find(v.attrs().begin(), v.attrs().end(), axis) != v.attrs().end();
    };
    for (const bool reduced : {false, true}) {
      for (int i = 0; i < v.shape(0).rank(); ++i) {
        if (is_reduced(i) != reduced) continue;
        inverse[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(order.size());
        order.push_back(i);
        sizes.push_back(v.shape(0)[i]);
        (reduced ? length : rows) *= v.shape(0)[i];
      }
    }
  }
};

// If a row has exactly one zero, that element gets the product of the others, and the others get 0.
Tensor product_slopes(const Vjp& v, const Tensor& x) {
  const auto axes = v.attrs();
  const Tensor zero = x.eq(0), others = where(zero, 1, x).prod(axes, true, v.place());
  const Tensor zeros = sum_axes(zero.to(x.dtype()), axes, true, v.place());
  return where(zero, where(zeros.eq(1), others, 0), where(zeros.eq(0), others / x, 0));
}

// 2 g d / (n - correction), where d is the distance from the mean.
void give_spread(Vjp& v, const Tensor& g) {
  const Tensor x = v.input(0);
  const double count = reduced_count(v), divisor = std::max(count - first_number(v), 0.0);
  const auto axes = other_axes(v);
  const Tensor mean = x.mean(axes, true, v.place());
  v.give(0, beside(v, g * (2 / divisor), axes) * (x - mean));
}

}  // namespace

void sum(Vjp& v) { v.give(0, spread(v, v.gradient())); }
void mean(Vjp& v) { v.give(0, spread(v, v.gradient() / reduced_count(v))); }

void prod(Vjp& v) {
  v.widen();
  if (v.shape(0).numel() == 0) return zero(v);
  const Tensor x = v.input(0), g = beside(v, v.gradient(), v.attrs());
  if (!v.with_history()) return v.give(0, product_slopes(v, x) * g);
  const Rows rows(v);
  const Tensor by_row =
      reshape_to(x.permute(rows.order, v.place()), {rows.rows, rows.length}, v.place());
  const Tensor others =
      reshape_to(products_of_others(by_row, v.place()), Shape(rows.sizes), v.place());
  v.give(0, others.permute(rows.inverse, v.place()) * g);
}

// Over several axes, equal elements share the gradient.
void extremum(Vjp& v) {
  v.widen();
  const Tensor g = beside(v, v.gradient(), v.attrs());
  v.give(0, shares(v, v.input(0), v.output(), v.attrs()) * g);
}
// Along one axis, the first of equal elements gets the gradient.
void extremum_along(Vjp& v) {
  const int axis = static_cast<int>(v.attr(0)), rank = v.shape(0).rank();
  const std::int64_t count = v.shape(0)[axis];
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(axis)] = count;
  const Tensor position =
      reshape_to(arange(count, {.device = v.device(0)}, v.place()), Shape(sizes), v.place());
  const Tensor first = position.eq(beside(v, v.auxiliary(0), v.attrs()));
  v.give(0, where(first, beside(v, v.gradient(), v.attrs()), 0));
}

void var(Vjp& v) {
  v.widen();
  give_spread(v, v.gradient());
}
void std(Vjp& v) {
  v.widen();
  give_spread(v, divided(v.gradient() * 0.5, v.output()));
}

void norm(Vjp& v) {
  v.widen();
  const double p = first_number(v);
  if (p == 0) return zero(v);
  const auto axes = other_axes(v);
  const Tensor x = v.input(0), g = v.gradient(), n = v.output();
  if (p == 1) return v.give(0, x.sign() * beside(v, g, axes));
  if (p == 2) return v.give(0, x * beside(v, divided(g, n), axes));
  if (std::isinf(p)) return v.give(0, x.sign() * shares(v, x.abs(), n, axes) * beside(v, g, axes));
  // sign(x) |x|^(p - 1) g / n^(p - 1)
  const Tensor nothing = x.eq(0), size = where(nothing, 1, x.abs());
  const Tensor slope = where(nothing, 0, x.sign() * size.pow(p - 1));
  const Tensor still = n.eq(0);
  const Tensor scale = where(still, 0, g * where(still, 1, n).pow(1 - p));
  v.give(0, slope * beside(v, scale, axes));
}

// The gradient is 0 for rows that are -inf throughout.
void logsumexp(Vjp& v) {
  v.widen();
  const double lowest = -std::numeric_limits<double>::infinity();
  const Tensor top = beside(v, v.output(), v.attrs());
  const Tensor shifted = v.input(0) - where(top.eq(lowest), 0, top);
  v.give(0, beside(v, v.gradient(), v.attrs()) * shifted.exp());
}

void softmax(Vjp& v) {
  v.widen();
  const Tensor y = v.output(), g = v.gradient();
  const Tensor gy = g * y;
  v.give(0, gy - y * sum_axes(gy, v.attrs(), true, v.place()));
}
void log_softmax(Vjp& v) {
  v.widen();
  const Tensor g = v.gradient();
  v.give(0, g - v.output().exp() * sum_axes(g, v.attrs(), true, v.place()));
}

}  // namespace volta::graph::vjp
