// Recurrent layers as loops: in each iteration a product with the state, then one kernel for all
// gates and the new state. What every step has is written where the sequence of it lies.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/attributes/recurrence.h"
#include "plan/calls/loop.h"
#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"
#include "plan/expand/sequence.h"

namespace volta::graph::expand {
namespace {

using kernel::ScalarOp;
using plan::BodyWriter;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;
using plan::Walked;

Expr sigmoid(Lowering& l, Expr x) {
  const Expr one = literal(l, 1, x);
  return one / (one + l.unary(ScalarOp::exp, l.unary(ScalarOp::neg, x)));
}

// y (1 - y) for y = sigmoid(x), and 1 - y^2 for y = tanh(x).
Expr sigmoid_slope(Lowering& l, Expr y) { return y * (literal(l, 1, y) - y); }
Expr tanh_slope(Lowering& l, Expr y) { return literal(l, 1, y) - y * y; }

// A sum of which one term may be missing.
Expr plus(Expr a, Expr b) { return a.is_none() ? b : b.is_none() ? a : a + b; }

// An operand that all iterations read.
struct Whole {
  int operand = -1;
  Shape shape;
  DType dtype = DType::f32;

  bool is_none() const { return operand < 0; }
  Expr in(BodyWriter& w) const { return widened(w.l, w.whole(operand, shape, dtype)); }
};

// The operands of a loop.
class Inputs {
 public:
  explicit Inputs(Lowering& l) : l_(l) {}

  std::vector<Expr> all;

  Whole whole(int input) { return add(l_.stored_in(input)); }
  // A matrix for products: in the dtype in which it is multiplied.
  Whole matrix(int input) {
    return add(l_.multiplies_halves(l_.stored_in(input).dtype()) ? l_.stored_in(input)
                                                                 : l_.in(input));
  }
  LoopedSequence sequence(int input) { return {l_, l_.stored_in(input), all}; }

 private:
  Whole add(Expr operand) {
    all.push_back(operand);
    return {static_cast<int>(all.size()) - 1, operand.shape(), operand.dtype()};
  }

  Lowering& l_;
};

// What both directions of a layer's loop know: the sizes and how sequences are walked.
struct Layer {
  Recurrence r;
  Extent batch, size, width;  // width: of all gates
  DType dtype, inner;         // of sequences, and of what iterations compute
  Walked walked;

  Layer(const Recurrence& recurrence, const Shape& gates, DType of, bool backwards)
      : r(recurrence),
        batch(gates[1]),
        size(gates[2] / gates_of(recurrence.cell)),
        width(gates[2]),
        dtype(of),
        inner(plan::is_half(of) ? DType::f32 : of),
        walked{gates[0], backwards} {}

  // Gate `number` of [batch, gates * size].
  Expr gate(BodyWriter& w, Expr all, std::int64_t number) const {
    const Extent start[] = {0, number * size};
    return w.l.shrink(all, start, {batch, size});
  }
  // The step of a sequence.
  Expr step(BodyWriter& w, const LoopedSequence& sequence) const {
    return widened(w.l, sequence.step(w, walked));
  }
  void write(BodyWriter& w, int result, Expr value) const {
    w.write(result, walked, w.l.cast(value, dtype));
  }
  std::string text(const char* kind, const std::vector<Expr>& operands) const;
};

// What tells apart loops whose iterations have different kernels.
std::string Layer::text(const char* kind, const std::vector<Expr>& operands) const {
  std::string text = kind;
  const auto add = [&](Extent number) {
    text += ' ' + std::to_string(number.hint()) + '/' + std::to_string(number.expression());
  };
  for (const std::int64_t flag :
       {static_cast<std::int64_t>(r.cell), std::int64_t{r.biased}, std::int64_t{r.has_states},
        std::int64_t{r.tf32}, std::int64_t{r.projected}, static_cast<std::int64_t>(dtype)})
    add(flag);
  for (const Expr& operand : operands) {
    text += ',';
    add(static_cast<std::int64_t>(operand.dtype()));
    for (const Extent size : operand.shape()) add(size);
  }
  return text;
}

// ---- Forward.

struct ForwardLoop : Layer {
  explicit ForwardLoop(const Layer& layer) : Layer(layer) {}

  LoopedSequence x;
  Whole weight, bias, projection, h, c;

  // Results of the loop; the sequences of what is kept for the gradient follow.
  static constexpr int kLast = 0, kOutput = 1, kCell = 2;
  int kept(int number) const { return (r.is_lstm() ? 3 : 2) + number; }
  bool is_cell(int number) const { return r.is_lstm() && number == 4; }
  // Carried values, where their sequences are not wanted or are halves that products cannot take.
  static constexpr int kCarriedState = 0, kCarriedCell = 1;

  Extent out() const { return weight.shape[1]; }
  // States are multiplied as they are kept, or else converted once.
  DType state_dtype(BodyWriter& w) const { return w.l.multiplies_halves(dtype) ? dtype : inner; }
  bool carries_state(BodyWriter& w) const { return !w.wants(kOutput) || state_dtype(w) != dtype; }
  void write(BodyWriter& w) const;
  Expr state_before(BodyWriter& w) const;
  Expr cell_before(BodyWriter& w) const;
  void keep(BodyWriter& w, const std::vector<Expr>& values) const;
};

Expr ForwardLoop::state_before(BodyWriter& w) const {
  if (w.is_first) return h.is_none() ? Expr{} : h.in(w);
  const Shape shape{batch, out()};
  return widened(w.l, carries_state(w) ? w.carried(kCarriedState, shape, state_dtype(w))
                                       : w.previous(kOutput, walked, shape, dtype));
}

Expr ForwardLoop::cell_before(BodyWriter& w) const {
  if (w.is_first) return c.is_none() ? Expr{} : c.in(w);
  const Shape shape{batch, size};
  return w.wants(kept(4)) ? w.previous(kept(4), walked, shape, inner)
                          : w.carried(kCarriedCell, shape, inner);
}

// Cells add up over all steps: halves would lose what single steps add.
void ForwardLoop::keep(BodyWriter& w, const std::vector<Expr>& values) const {
  for (std::size_t k = 0; k < values.size(); ++k) {
    const int number = static_cast<int>(k);
    if (w.wants(kept(number)))
      w.write(kept(number), walked, w.l.cast(values[k], is_cell(number) ? inner : dtype));
  }
  if (!r.is_lstm()) return;
  if (!w.wants(kept(4)) && !w.is_last) w.carry(kCarriedCell, w.l.cast(values[4], inner));
  if (w.is_last && w.wants(kCell)) w.write_whole(kCell, w.l.cast(values[4], dtype));
}

void ForwardLoop::write(BodyWriter& w) const {
  Lowering& l = w.l;
  const Expr in = step(w, x);
  const Expr before = state_before(w), matrix = weight.in(w);
  // The state's part of the gates; of no state and no bias there is none.
  Expr state = !before.is_none() ? plan::matmul(l, before, matrix, false, true, r.tf32) : Expr{};
  if (r.biased) state = !state.is_none() ? state + bias.in(w) : l.expand(bias.in(w), in.shape());
  const Expr all = state.is_none() ? in : in + state;
  Expr last;
  std::vector<Expr> values;
  if (r.is_lstm()) {
    const Expr i = sigmoid(l, gate(w, all, 0)), f = sigmoid(l, gate(w, all, 1)),
               g = l.unary(ScalarOp::tanh, gate(w, all, 2)), o = sigmoid(l, gate(w, all, 3));
    const Expr cell = cell_before(w);
    const Expr now = !cell.is_none() ? f * cell + i * g : i * g;
    last = o * l.unary(ScalarOp::tanh, now);
    if (r.projected) {
      const Expr whole = widened(l, l.cast(last, dtype));
      last = plan::matmul(l, whole, projection.in(w), false, true, r.tf32);
    }
    values = {i, f, g, o, now};
  } else if (r.is_gru()) {
    const Expr reset = sigmoid(l, gate(w, all, 0)), z = sigmoid(l, gate(w, all, 1));
    const Expr own = gate(w, in, 2);
    const Expr q = state.is_none() ? l.expand(literal(l, 0, own), own.shape()) : gate(w, state, 2);
    const Expr n = l.unary(ScalarOp::tanh, own + reset * q), rest = literal(l, 1, z) - z;
    last = before.is_none() ? rest * n : rest * n + z * before;
    values = {reset, z, n, q};
  } else {
    last = r.cell == Cell::tanh ? l.unary(ScalarOp::tanh, all)
                                : l.binary(ScalarOp::maximum, all, literal(l, 0, all));
  }
  if (w.wants(kOutput)) Layer::write(w, kOutput, last);
  if (carries_state(w) && !w.is_last)
    w.carry(kCarriedState, l.cast(l.cast(last, dtype), state_dtype(w)));
  if (w.is_last && w.wants(kLast)) w.write_whole(kLast, l.cast(last, dtype));
  keep(w, values);
}

// ---- Backward.

// A product's part of the gradient of h is computed by the step before the one that gave the gates,
// so that what is added to it can be added by the same kernel.
struct BackwardLoop : Layer {
  explicit BackwardLoop(const Layer& layer) : Layer(layer) {}

  LoopedSequence d_output;
  Whole weight, projection, first, dh, dc;
  int output = -1;  // operands; of what was kept, the first one
  int kept = -1;

  // Results of the loop.
  static constexpr int kToState = 0, kStart = 1, kCellStart = 2;
  static constexpr int kToX = 2;  // of a GRU; of others the same as kToState
  int to_h() const { return r.is_lstm() ? 3 : 2; }
  // Carried values: the gradient of the cell, or of what goes past the product; and that of the
  // gates where their sequence is not wanted.
  static constexpr int kCarried = 0, kCarriedGates = 1;

  Expr kept_step(BodyWriter& w, int number, int ahead = 0) const {
    const DType of = r.is_lstm() && number == 4 ? inner : dtype;
    return widened(w.l, w.step_of(kept + number, walked, {batch, size}, of, ahead));
  }
  Expr output_step(BodyWriter& w, int ahead = 0) const {
    return widened(w.l, w.step_of(output, walked, {batch, size}, dtype, ahead));
  }
  Expr zeros(BodyWriter& w, Extent columns) const {
    return w.l.expand(w.l.constant(0, inner), {batch, columns});
  }
  // The state (of an LSTM: the cell) that the step started from.
  Expr before(BodyWriter& w) const {
    if (w.is_last) return first.is_none() ? zeros(w, size) : first.in(w);
    return r.is_lstm() ? kept_step(w, 4, 1) : output_step(w, 1);
  }
  Expr carried(BodyWriter& w) const { return w.carried(kCarried, {batch, size}, inner); }
  Expr joined(BodyWriter& w, std::initializer_list<Expr> gates) const;
  Expr gates_before(BodyWriter& w) const;
  void write(BodyWriter& w) const;
  void write_gates(BodyWriter& w, Expr gates, Expr more) const;
  void write_lstm(BodyWriter& w, Expr now) const;
  void write_gru(BodyWriter& w, Expr now) const;
};

Expr BackwardLoop::joined(BodyWriter& w, std::initializer_list<Expr> gates) const {
  std::vector<Expr> parts;
  for (const Expr& gate : gates) parts.push_back(w.l.placed(w.l.cast(gate, dtype)));
  return w.l.join(parts, 1);
}

Expr BackwardLoop::gates_before(BodyWriter& w) const {
  const Shape shape{batch, width};
  return widened(w.l, w.wants(kToState) ? w.previous(kToState, walked, shape, dtype)
                                        : w.carried(kCarriedGates, shape, dtype));
}

// The gradient of the gates, and after the last step that of the state that the loop started from.
void BackwardLoop::write_gates(BodyWriter& w, Expr gates, Expr more) const {
  if (w.wants(kToState)) {
    w.write(kToState, walked, gates);
  } else if (!w.is_last) {
    w.carry(kCarriedGates, gates);
  }
  if (!w.is_last || !w.wants(kStart)) return;
  const Expr product = plan::matmul(w.l, widened(w.l, gates), weight.in(w), false, false, r.tf32);
  w.write_whole(kStart, w.l.cast(plus(more, product), dtype));
}

void BackwardLoop::write_lstm(BodyWriter& w, Expr now) const {
  Lowering& l = w.l;
  const Expr i = kept_step(w, 0), f = kept_step(w, 1), g = kept_step(w, 2), o = kept_step(w, 3),
             t = l.unary(ScalarOp::tanh, kept_step(w, 4));
  const Expr later = !w.is_first ? carried(w) : dc.is_none() ? Expr{} : dc.in(w);
  const Expr d = plus(later, now * o * tanh_slope(l, t));
  const Expr gates = joined(w, {d * g * sigmoid_slope(l, i), d * before(w) * sigmoid_slope(l, f),
                                d * i * tanh_slope(l, g), now * t * sigmoid_slope(l, o)});
  write_gates(w, gates, {});
  if (!w.is_last) w.carry(kCarried, d * f);
  if (w.is_last && w.wants(kCellStart)) w.write_whole(kCellStart, l.cast(d * f, dtype));
}

void BackwardLoop::write_gru(BodyWriter& w, Expr now) const {
  Lowering& l = w.l;
  const Expr reset = kept_step(w, 0), z = kept_step(w, 1), n = kept_step(w, 2), q = kept_step(w, 3);
  const Expr dn = now * (literal(l, 1, z) - z) * tanh_slope(l, n);
  const Expr dr = dn * q * sigmoid_slope(l, reset),
             dz = now * (before(w) - n) * sigmoid_slope(l, z);
  if (w.wants(kToX)) w.write(kToX, walked, joined(w, {dr, dz, dn}));
  const Expr gates = joined(w, {dr, dz, dn * reset});
  write_gates(w, gates, now * z);
  if (!w.is_last) w.carry(kCarried, now * z);
}

void BackwardLoop::write(BodyWriter& w) const {
  Lowering& l = w.l;
  Expr now;
  if (w.is_first) {
    if (!dh.is_none()) now = dh.in(w);
  } else {
    const Expr more = r.is_gru() ? carried(w) : Expr{};
    now = plus(more, plan::matmul(l, gates_before(w), weight.in(w), false, false, r.tf32));
  }
  if (!d_output.is_none()) now = plus(now, step(w, d_output));
  if (now.is_none()) now = zeros(w, weight.shape[1]);
  if (r.projected) {
    const Expr rounded = l.placed(l.cast(now, dtype));
    if (w.wants(to_h())) w.write(to_h(), walked, rounded);
    now = plan::matmul(l, widened(l, rounded), projection.in(w), false, false, r.tf32);
  }
  if (r.is_lstm()) return write_lstm(w, now);
  if (r.is_gru()) return write_gru(w, now);
  const Expr y = output_step(w);
  const Expr slope = r.cell == Cell::tanh ? tanh_slope(l, y)
                                          : l.where(l.binary(ScalarOp::le, y, literal(l, 0, y)),
                                                    literal(l, 0, y), literal(l, 1, y));
  write_gates(w, joined(w, {now * slope}), {});
}

}  // namespace

void recurrent(Lowering& l) {
  const Recurrence r(l.attrs());
  const Expr x = l.stored_in(0);
  Inputs inputs(l);
  ForwardLoop loop(Layer(r, x.shape(), l.dtype(), r.reverse));
  loop.x = inputs.sequence(0);
  loop.weight = inputs.matrix(1);
  if (r.biased) loop.bias = inputs.whole(r.bias());
  if (r.projected) loop.projection = inputs.matrix(r.projection());
  if (r.has_states) loop.h = inputs.whole(r.h());
  if (r.has_states && r.is_lstm()) loop.c = inputs.whole(r.c());
  const Extent length = loop.walked.length;
  const DType dtype = loop.dtype;
  std::vector<plan::LoopResult> results{{dtype, {loop.batch, loop.out()}},
                                        {dtype, {length, loop.batch, loop.out()}}};
  if (r.is_lstm()) results.push_back({dtype, {loop.batch, loop.size}});
  for (int k = 0; k < r.kept(); ++k)
    results.push_back({loop.is_cell(k) ? loop.inner : dtype, {length, loop.batch, loop.size}});
  const std::vector<Expr> found =
      plan::loop(l, length,
                 {.operands = static_cast<int>(inputs.all.size()),
                  .results = static_cast<int>(results.size()),
                  .carried = 2,
                  .label = "recurrent",
                  .write = [loop](BodyWriter& w) { loop.write(w); }},
                 loop.text("recurrent", inputs.all), inputs.all, results);
  l.out(0, found[ForwardLoop::kOutput]);
  l.out(1, found[ForwardLoop::kLast]);
  for (std::size_t k = 2; k < found.size(); ++k) l.out(static_cast<int>(k), found[k]);
}

void recurrent_grad(Lowering& l) {
  const RecurrenceGrad r(l.attrs());
  const Recurrence& of = r.of;
  Inputs inputs(l);
  // Gradients are computed against the order of the steps.
  BackwardLoop loop(Layer(of, l.shape(), l.dtype(), !of.reverse));
  int next = 0;
  loop.weight = inputs.matrix(next++);
  if (of.projected) loop.projection = inputs.matrix(next++);
  // Of h a GRU needs the value, of c an LSTM.
  if (of.has_states && of.kept() > 0) loop.first = inputs.whole(next++);
  if (!of.is_lstm()) loop.output = inputs.whole(next++).operand;
  loop.kept = static_cast<int>(inputs.all.size());
  for (int k = 0; k < of.kept(); ++k) inputs.whole(next++);
  if (r.output) loop.d_output = inputs.sequence(next++);
  if (r.h) loop.dh = inputs.whole(next++);
  if (r.c) loop.dc = inputs.whole(next++);
  const Extent length = loop.walked.length, out = loop.weight.shape[1];
  const DType dtype = loop.dtype;
  const Shape gates{length, loop.batch, loop.width};
  std::vector<plan::LoopResult> results{{dtype, gates}, {dtype, {loop.batch, out}}};
  if (of.is_lstm()) results.push_back({dtype, {loop.batch, loop.size}});
  if (of.is_gru()) results.push_back({dtype, gates});
  if (of.projected) results.push_back({dtype, {length, loop.batch, out}});
  const std::vector<Expr> found =
      plan::loop(l, length,
                 {.operands = static_cast<int>(inputs.all.size()),
                  .results = static_cast<int>(results.size()),
                  .carried = 2,
                  .label = "recurrent_grad",
                  .write = [loop](BodyWriter& w) { loop.write(w); }},
                 loop.text("recurrent_grad", inputs.all), inputs.all, results);
  const Expr to_state = found[BackwardLoop::kToState];
  l.out(0, of.is_gru() ? found[BackwardLoop::kToX] : to_state);
  l.out(1, found[BackwardLoop::kStart]);
  if (of.is_lstm()) l.out(2, found[BackwardLoop::kCellStart]);
  if (of.projected) l.out(3, found[static_cast<std::size_t>(loop.to_h())]);
  if (of.is_gru()) l.out(2, to_state);
}

}  // namespace volta::graph::expand
