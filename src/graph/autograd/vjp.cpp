// Gradient rules in tensor operations, which run on the device of their tensors. `g` is the
// gradient of the output. A result may have the broadcast shape; the backward pass sums it to the
// input's shape. The rules of reductions are in vjp_reduce.cpp, of movement in vjp_movement.cpp, of
// losses in vjp_loss.cpp.
#include "graph/autograd/vjp.h"

#include <numbers>
#include <numeric>

#include "graph/autograd/gradient_guard.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "graph/record/placing.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta::graph::vjp {

void zero(Vjp& v) { v.give(0, filled(v.shape(0), 0, v.dtype(0), v.device(0))); }
void neg(Vjp& v) { v.give(0, -v.gradient()); }
void abs(Vjp& v) { v.give(0, v.gradient() * v.input(0).sign()); }
void exp(Vjp& v) { v.give(0, v.gradient() * v.output()); }
void expm1(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() * (v.output() + 1));
}
void log(Vjp& v) { v.give(0, v.gradient() / v.input(0)); }
void log1p(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() / (v.input(0) + 1));
}
void sqrt(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() * 0.5 / v.output());
}
void rsqrt(Vjp& v) {
  v.widen();
  const Tensor& y = v.output();
  v.give(0, v.gradient() * -0.5 * (y * y * y));
}
void sin(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() * v.input(0).cos());
}
void cos(Vjp& v) {
  v.widen();
  v.give(0, -(v.gradient() * v.input(0).sin()));
}
void tanh(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() * (1 - v.output().square()));
}
void erf(Vjp& v) {
  v.widen();
  v.give(0, v.gradient() * (std::numbers::inv_sqrtpi * 2) * (-v.input(0).square()).exp());
}
void add(Vjp& v) {
  for (int i = 0; i < v.inputs(); ++i) v.give(i, v.gradient());
}
void sub(Vjp& v) {
  v.give(0, v.gradient());
  if (v.needs(1)) v.give(1, -v.gradient());
}
void mul(Vjp& v) {
  if (v.needs(0)) v.give(0, v.gradient() * v.input(1));
  if (v.needs(1)) v.give(1, v.gradient() * v.input(0));
}
void div(Vjp& v) {
  v.widen();
  const Tensor& b = v.input(1);
  if (v.needs(0)) v.give(0, v.gradient() / b);
  // Divides twice, since b squared may overflow or underflow.
  if (v.needs(1)) v.give(1, -(v.gradient() * (v.input(0) / b / b)));
}
void pow(Vjp& v) {
  v.widen();
  const Tensor &a = v.input(0), &b = v.input(1), &g = v.gradient();
  if (v.needs(0)) v.give(0, where(b.eq(0), 0, g * b * volta::pow(a, b - 1)));
  // The gradient of 0^b with respect to b >= 0 is 0, not 0 * -inf.
  if (v.needs(1)) v.give(1, where(logical_and(a.eq(0), b.ge(0)), 0, g * v.output() * a.log()));
}
// If either operand is NaN, both get the gradient.
void maximum(Vjp& v) {
  const Tensor &a = v.input(0), &b = v.input(1), &g = v.gradient();
  const Tensor half = g * 0.5;
  if (v.needs(0)) v.give(0, where(a.eq(b), half, where(a.lt(b), 0, g)));
  if (v.needs(1)) v.give(1, where(a.eq(b), half, where(b.lt(a), 0, g)));
}
void minimum(Vjp& v) {
  const Tensor &a = v.input(0), &b = v.input(1), &g = v.gradient();
  const Tensor half = g * 0.5;
  if (v.needs(0)) v.give(0, where(a.eq(b), half, where(b.lt(a), 0, g)));
  if (v.needs(1)) v.give(1, where(a.eq(b), half, where(a.lt(b), 0, g)));
}
void where(Vjp& v) {
  const Tensor& condition = v.input(0);
  if (v.needs(1)) v.give(1, volta::where(condition, v.gradient(), 0));
  if (v.needs(2)) v.give(2, volta::where(condition, 0, v.gradient()));
}
void cast(Vjp& v) { v.give(0, v.gradient()); }
void gather(Vjp& v) {
  const Tensor inputs[2] = {v.gradient(), v.input(1)};
  const std::int64_t rows = v.shape(0)[0];
  v.give(0, apply(OpId::scatter_rows, inputs, {&rows, 1}, v.shape(0), v.dtype(0), v.place()));
}
void scatter_rows(Vjp& v) {
  const std::int64_t rows = v.attr(0);
  const std::int64_t columns = v.output_shape().numel() / std::max<std::int64_t>(rows, 1);
  const Tensor g = reshape_to(v.gradient(), {rows, columns}, v.place());
  v.give(0, reshape_to(embedding(g, v.input(1), v.place()), v.shape(0), v.place()));
}
void cumsum(Vjp& v) {
  const std::int64_t attrs[] = {v.attr(0), v.attr(1) == 0};
  const Tensor& g = v.gradient();
  v.give(0, apply(OpId::cumsum, {&g, 1}, attrs, g.shape(), g.dtype(), v.place()));
}
// If all elements were sorted, the gradient is permuted by the inverse permutation. Otherwise
// elements that were not selected get zero.
void sort(Vjp& v) {
  const Tensor &positions = v.auxiliary(0), &g = v.gradient();
  const int last = v.shape(0).rank() - 1;
  if (v.attr(0) == v.shape(0)[last]) {
    v.give(0, gather(g, last, argsort(positions, last, {}, v.place()), v.place()));
  } else {
    v.give(0, apply(OpId::add_along, {g, positions}, {last}, v.shape(0), v.dtype(0), v.place()));
  }
}
void matmul(Vjp& v) {
  const bool ta = v.attr(0) != 0, tb = v.attr(1) != 0, tf32 = v.attr(2) != 0;
  const Tensor& g = v.gradient();
  if (v.needs(0)) {
    const Tensor& b = v.input(1);
    v.give(0, ta ? product(b, g, tb, true, tf32, v.place())
                 : product(g, b, false, !tb, tf32, v.place()));
  }
  if (v.needs(1)) {
    const Tensor& a = v.input(0);
    v.give(1, tb ? product(g, a, true, ta, tf32, v.place())
                 : product(a, g, !ta, false, tf32, v.place()));
  }
}
void to_device(Vjp& v) {
  const Edge& edge = v.tape().edges[0];
  const bool placed = !v.attrs().empty() && v.attr(0) != 0;
  // The backward pass moves the gradient if the record's rule runs on another device.
  if (placed && v.gives_leaves() && edge.tape) return v.give(0, v.gradient());
  if (placed && v.gives_leaves() && edge.leaf.defined()) {
    Variable& leaf = *TensorAccess::variable(edge.leaf);
    const GradientGuard guard(leaf);
    if (adopt_replica(leaf, entry_of(v.gradient()))) return v.give(0, v.gradient());
  }
  // The current device of the leaf, which may have moved since the forward pass.
  const Device home = edge.leaf.defined() ? edge.leaf.device() : v.device(0);
  const TransferReason reason("gradients", v.place());
  v.give(0, v.gradient().to(home, v.place()));
}

void sum_to(Vjp& v) { v.give(0, expand_to(v.gradient(), v.shape(0), v.place())); }
// y [n, out] = x [n, in] w^T [in, out] + b
void linear(Vjp& v) {
  const Tensor& g = v.gradient();
  const bool tf32 = v.attr(0) != 0;
  if (v.needs(0)) v.give(0, product(g, v.input(1), false, false, tf32, v.place()));
  if (v.needs(1)) v.give(1, product(g, v.input(0), true, false, tf32, v.place()));
  if (v.inputs() > 2 && v.needs(2)) v.give(2, g);
}
// Inputs: x, eps, weight, bias. Auxiliary: mean, reciprocal standard deviation r. h = (x - mean) r
void layer_norm(Vjp& v) {
  v.widen();
  const Tensor &g = v.gradient(), &x = v.input(0);
  const int axes = static_cast<int>(v.attr(0)), first = x.rank() - axes;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(axes));
  std::iota(rows.begin(), rows.end(), first);
  std::int64_t count = 1;
  for (int i = first; i < x.rank(); ++i) count *= x.shape()[i];
  const auto mean_of = [&](const Tensor& t) {
    return sum_axes(t, rows, true, v.place()) / static_cast<double>(count);
  };
  const Tensor mean = v.with_history() ? mean_of(x) : v.auxiliary(0), d = x - mean;
  const Tensor r = v.with_history() ? (mean_of(d.square()) + v.input(1)).rsqrt() : v.auxiliary(1);
  const Tensor h = d * r;
  if (v.needs(0)) {
    const Tensor gw = v.inputs() > 2 ? g * v.input(2) : g;
    const Tensor mean_g = mean_of(gw);
    const Tensor mean_gh = mean_of(gw * h);
    v.give(0, (gw - mean_g - h * mean_gh) * r);
  }
  if (v.inputs() > 2 && v.needs(2)) v.give(2, g * h);
  if (v.inputs() > 3 && v.needs(3)) v.give(3, g);
}
// Uses the same mask, generated from the same seed and offset.
void dropout(Vjp& v) {
  const Tensor inputs[4] = {v.gradient(), v.input(1), v.input(2), v.input(3)};
  v.give(0, apply(OpId::dropout, inputs, {}, v.shape(0), v.dtype(0), v.place()));
}

}  // namespace volta::graph::vjp
