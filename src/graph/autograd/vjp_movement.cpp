// Gradients of movement operations.
#include <algorithm>
#include <cstdlib>

#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

// Spaces the elements along an axis `step` apart, from `start` on, in `whole` elements that are
// otherwise zero. The result is built from blocks of `step` elements, so that no index needs a
// division if `whole` is a multiple of `step`.
Tensor spaced(const Tensor& x, int axis, std::int64_t start, std::int64_t step, std::int64_t whole,
              SourceLocation place) {
  const Shape& shape = x.shape();
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i < axis) outer *= shape[i];
    if (i > axis) inner *= shape[i];
  }
  const std::int64_t count = shape[axis], blocks = (whole + step - 1) / step, first = start / step;
  const std::int64_t before[] = {0, first, start % step, 0};
  const std::int64_t after[] = {0, blocks - first - count, step - 1 - start % step, 0};
  const Tensor padded =
      volta::pad(reshape_to(x, {outer, count, 1, inner}, place), before, after, 0, place);
  Tensor result = reshape_to(padded, {outer, blocks * step, inner}, place);
  if (blocks * step != whole) result = result.narrow(1, 0, whole, place);
  return reshape_to(result, shape.with(axis, whole), place);
}

}  // namespace

void reshape(Vjp& v) { v.give(0, reshape_to(v.gradient(), v.shape(0), v.place())); }
void permute(Vjp& v) {
  std::vector<std::int64_t> inverse(v.attrs().size());
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(v.attrs()[i])] = static_cast<std::int64_t>(i);
  v.give(0, v.gradient().permute(inverse, v.place()));
}
void shrink(Vjp& v) {
  const Shape &whole = v.shape(0), &part = v.output_shape();
  std::vector<std::int64_t> before, after;
  for (int i = 0; i < whole.rank(); ++i) {
    before.push_back(v.attr(i));
    after.push_back(whole[i] - v.attr(i) - part[i]);
  }
  v.give(0, volta::pad(v.gradient(), before, after, 0, v.place()));
}
void pad(Vjp& v) {
  Tensor g = v.gradient();
  for (int i = 0; i < v.shape(0).rank(); ++i) g = g.narrow(i, v.attr(i), v.shape(0)[i], v.place());
  v.give(0, g);
}

void stride(Vjp& v) {
  const Shape &whole = v.shape(0), &part = v.output_shape();
  if (part.numel() == 0) return zero(v);
  const int rank = whole.rank();
  Tensor g = v.gradient();
  std::vector<std::int64_t> flipped;
  for (int i = 0; i < rank; ++i) {
    if (v.attr(rank + i) < 0) flipped.push_back(i);
  }
  if (!flipped.empty()) g = g.flip(flipped, v.place());
  for (int i = 0; i < rank; ++i) {
    const std::int64_t step = v.attr(rank + i);
    const std::int64_t start = step < 0 ? v.attr(i) + (part[i] - 1) * step : v.attr(i);
    if (part[i] != whole[i]) g = spaced(g, i, start, std::abs(step), whole[i], v.place());
  }
  v.give(0, g);
}

void unfold(Vjp& v) {
  const Tensor& g = v.gradient();
  v.give(0, apply(OpId::fold, {g}, {v.attr(0), v.attr(2)}, v.shape(0), g.dtype(), v.place()));
}
void fold(Vjp& v) {
  const Shape& windows = v.shape(0);
  v.give(0, v.gradient().unfold(v.attr(0), windows[windows.rank() - 1], v.attr(1), v.place()));
}

void concat(Vjp& v) {
  const std::int64_t axis = v.attr(0);
  std::int64_t start = 0;
  for (int i = 0; i < v.inputs(); ++i) {
    const std::int64_t size = v.shape(i)[static_cast<int>(axis)];
    if (v.needs(i)) v.give(i, v.gradient().narrow(axis, start, size, v.place()));
    start += size;
  }
}

}  // namespace volta::graph::vjp
