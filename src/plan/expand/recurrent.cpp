// Recurrent layers, written out step by step: a product with the state, then one kernel for all
// gates and the new state. Each step writes its outputs into their place in the whole sequence.
#include <vector>

#include "graph/attributes/recurrence.h"
#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {
namespace {

using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

// A sequence [length, batch, ...], with steps in the order in which they are computed.
class Sequence {
 public:
  Sequence(Lowering& l, const Shape& x, std::int64_t gates, bool reverse)
      : length(x[0]), batch(x[1]), size(x[2] / gates), l_(l), reverse_(reverse) {}

  // The slice [batch, n] of a sequence [length, batch, n] for a step, in f32 if it is halves.
  Expr at(Expr all, std::int64_t step) const {
    const Shape shape = all.shape();
    const Extent start[] = {place(step), 0, 0};
    const Expr one = l_.shrink(all, start, {1, shape[1], shape[2]});
    return widened(l_, l_.reshape(one, {shape[1], shape[2]}));
  }
  // Gate `number` of [batch, gates * size].
  Expr gate(Expr all, std::int64_t number) const {
    const Extent start[] = {0, number * size};
    return l_.shrink(all, start, {batch, size});
  }
  // A step's value as a part of a sequence, to be written into the memory of the whole sequence.
  Expr part(Expr value, DType dtype) const {
    return l_.placed(l_.reshape(l_.cast(value, dtype), {1, batch, value.shape()[1]}));
  }
  // The whole sequence, from the parts of all steps in the order in which they are computed.
  Expr join(std::vector<Expr> parts) const {
    if (reverse_) parts = {parts.rbegin(), parts.rend()};
    return l_.join(parts, 0);
  }
  // The value [batch, n] of a part, for further computation.
  Expr value(Expr part) const { return widened(l_, l_.reshape(part, {batch, part.shape()[2]})); }

  // A plain number, because the steps are written out.
  std::int64_t length;
  Extent batch, size;

 private:
  std::int64_t place(std::int64_t step) const { return reverse_ ? length - 1 - step : step; }

  Lowering& l_;
  bool reverse_;
};

Expr sigmoid(Lowering& l, Expr x) {
  const Expr one = literal(l, 1, x);
  return one / (one + l.unary(ScalarOp::exp, l.unary(ScalarOp::neg, x)));
}

// y (1 - y) for y = sigmoid(x), and 1 - y^2 for y = tanh(x).
Expr sigmoid_slope(Lowering& l, Expr y) { return y * (literal(l, 1, y) - y); }
Expr tanh_slope(Lowering& l, Expr y) { return literal(l, 1, y) - y * y; }

}  // namespace

void recurrent(Lowering& l) {
  const Recurrence r(l.attrs());
  const Expr x = l.in(0), weight = l.in(1);
  const Sequence s(l, x.shape(), gates_of(r.cell), r.reverse);
  const DType dtype = l.dtype(), inner = x.dtype();
  const Expr bias = r.biased ? l.in(r.bias()) : Expr{};
  const Expr projection = r.projected ? l.in(r.projection()) : Expr{};
  Expr h = r.has_states ? l.in(r.h()) : Expr{};
  Expr c = r.has_states && r.is_lstm() ? l.in(r.c()) : Expr{};
  std::vector<std::vector<Expr>> kept(static_cast<std::size_t>(r.kept()));
  std::vector<Expr> output;
  Expr last;
  for (std::int64_t step = 0; step < s.length; ++step) {
    const Expr in = s.at(x, step);
    // The state's contribution to the gates; empty without a state and a bias.
    Expr state = !h.is_none() ? plan::matmul(l, h, weight, false, true, r.tf32) : Expr{};
    if (r.biased) state = !state.is_none() ? state + bias : l.expand(bias, in.shape());
    const Expr all = state.is_none() ? in : in + state;
    std::vector<Expr> keep;
    if (r.is_lstm()) {
      const Expr i = sigmoid(l, s.gate(all, 0)), f = sigmoid(l, s.gate(all, 1)),
                 g = l.unary(ScalarOp::tanh, s.gate(all, 2)), o = sigmoid(l, s.gate(all, 3));
      const Expr now = !c.is_none() ? f * c + i * g : i * g;
      last = o * l.unary(ScalarOp::tanh, now);
      if (r.projected) {
        const Expr whole = widened(l, l.cast(last, dtype));
        last = plan::matmul(l, whole, projection, false, true, r.tf32);
      }
      c = now;
      keep = {i, f, g, o, now};
    } else if (r.is_gru()) {
      const Expr reset = sigmoid(l, s.gate(all, 0)), z = sigmoid(l, s.gate(all, 1));
      const Expr own = s.gate(in, 2);
      const Expr q = state.is_none() ? l.expand(literal(l, 0, own), own.shape()) : s.gate(state, 2);
      const Expr n = l.unary(ScalarOp::tanh, own + reset * q), rest = literal(l, 1, z) - z;
      last = h.is_none() ? rest * n : rest * n + z * h;
      keep = {reset, z, n, q};
    } else {
      last = r.cell == Cell::tanh ? l.unary(ScalarOp::tanh, all)
                                  : l.binary(ScalarOp::maximum, all, literal(l, 0, all));
    }
    output.push_back(s.part(last, dtype));
    h = s.value(output.back());
    for (std::size_t k = 0; k < keep.size(); ++k) {
      // Cells are kept in f32: they accumulate over all steps, and halves would lose small
      // contributions.
      const bool cell = r.is_lstm() && k == 4;
      kept[k].push_back(s.part(keep[k], cell ? inner : dtype));
      if (cell && step + 1 < s.length) c = s.value(kept[k].back());
    }
  }
  l.out(0, s.join(std::move(output)));
  int number = 1;
  l.out(number++, last);
  if (r.is_lstm()) l.out(number++, c);
  for (auto& parts : kept) l.out(number++, s.join(std::move(parts)));
}

void recurrent_grad(Lowering& l) {
  const RecurrenceGrad r(l.attrs());
  const Recurrence& of = r.of;
  int next = 0;
  const Expr weight = l.in(next++);
  const Expr projection = of.projected ? l.in(next++) : Expr{};
  // The initial state: a GRU's gradient reads h, an LSTM's reads c.
  const Expr first = of.has_states && of.kept() > 0 ? l.in(next++) : Expr{};
  const Expr output = of.is_lstm() ? Expr{} : l.stored_in(next++);
  std::vector<Expr> kept;
  for (int k = 0; k < of.kept(); ++k) kept.push_back(l.stored_in(next++));
  const Expr d_output = r.output ? l.stored_in(next++) : Expr{};
  Expr dh = r.h ? l.in(next++) : Expr{}, dc = r.c ? l.in(next++) : Expr{};
  const Sequence s(l, l.shape(), gates_of(of.cell), of.reverse);
  const DType dtype = l.dtype();
  std::vector<Expr> to_x, to_state, to_h;  // gradients of the gates and of h, for each step
  const auto joined = [&](std::initializer_list<Expr> gates) {
    std::vector<Expr> parts;
    for (const Expr& gate : gates) parts.push_back(s.part(gate, dtype));
    return l.join(parts, 2);
  };
  const auto plus = [](Expr a, Expr b) { return a.is_none() ? b : b.is_none() ? a : a + b; };
  const auto zeros = [&](Extent width) {
    return l.expand(literal(l, 0, weight), {s.batch, width});
  };
  const Expr zero = zeros(s.size);
  for (std::int64_t step = s.length; step-- > 0;) {
    if (r.output) dh = plus(dh, s.at(d_output, step));
    if (dh.is_none()) dh = zeros(weight.shape()[1]);
    if (of.projected) {
      to_h.push_back(s.part(dh, dtype));
      dh = plan::matmul(l, s.value(to_h.back()), projection, false, false, of.tf32);
    }
    Expr more;  // the part of h's gradient that bypasses the product
    if (of.is_lstm()) {
      const Expr i = s.at(kept[0], step), f = s.at(kept[1], step), g = s.at(kept[2], step),
                 o = s.at(kept[3], step), t = l.unary(ScalarOp::tanh, s.at(kept[4], step));
      const Expr before = step > 0 ? s.at(kept[4], step - 1) : !first.is_none() ? first : zero;
      const Expr d = plus(dc, dh * o * tanh_slope(l, t));
      to_x.push_back(joined({d * g * sigmoid_slope(l, i), d * before * sigmoid_slope(l, f),
                             d * i * tanh_slope(l, g), dh * t * sigmoid_slope(l, o)}));
      dc = l.stored(d * f);
    } else if (of.is_gru()) {
      const Expr reset = s.at(kept[0], step), z = s.at(kept[1], step), n = s.at(kept[2], step),
                 q = s.at(kept[3], step);
      const Expr before = step > 0 ? s.at(output, step - 1) : !first.is_none() ? first : zero;
      const Expr dn = dh * (literal(l, 1, z) - z) * tanh_slope(l, n);
      const Expr dr = dn * q * sigmoid_slope(l, reset),
                 dz = dh * (before - n) * sigmoid_slope(l, z);
      to_x.push_back(joined({dr, dz, dn}));
      to_state.push_back(joined({dr, dz, dn * reset}));
      more = l.stored(dh * z);
    } else {
      const Expr y = s.at(output, step);
      const Expr slope = of.cell == Cell::tanh
                             ? tanh_slope(l, y)
                             : l.where(l.binary(ScalarOp::le, y, literal(l, 0, y)),
                                       literal(l, 0, y), literal(l, 1, y));
      to_x.push_back(joined({dh * slope}));
    }
    const Expr gates = of.is_gru() ? to_state.back() : to_x.back();
    dh = plus(more, plan::matmul(l, s.value(gates), weight, false, false, of.tf32));
  }
  const auto in_order = [&](std::vector<Expr> parts) {
    return s.join({parts.rbegin(), parts.rend()});
  };
  l.out(0, in_order(std::move(to_x)));
  l.out(1, dh);
  if (of.is_lstm()) l.out(2, dc);
  if (of.projected) l.out(3, in_order(std::move(to_h)));
  if (of.is_gru()) l.out(2, in_order(std::move(to_state)));
}

}  // namespace volta::graph::expand
