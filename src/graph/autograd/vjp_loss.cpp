// Gradients of losses that have nodes of their own.
#include "graph/attributes/class_loss.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

// factor * g / n for a mean, factor * g for a sum or no reduction.
Tensor scaled(const Vjp& v, std::int64_t n, double factor = 1) {
  if (v.attr(0) == static_cast<std::int64_t>(Reduction::mean)) factor /= static_cast<double>(n);
  return factor == 1 ? v.gradient() : v.gradient() * factor;
}

// Values that the rules of class losses share.
struct Rows {
  Vjp& v;
  const ClassLoss spec;
  const ClassAxis at;

  explicit Rows(Vjp& vjp) : v(vjp), spec(vjp.op(), vjp.attrs()), at(vjp.shape(0)) {}

  Tensor kept(const Tensor& rows) const { return reshape_to(rows, at.kept, v.place()); }
  Tensor result(int number) const { return v.auxiliary(number - 1); }
  // The label of each row, broadcast against the classes; -1 if it is ignored.
  Tensor label() const { return kept(result(spec.label)); }
  // The gradient of each row's loss, broadcast against the classes. It is only valid for rows that
  // are not ignored.
  Tensor gradient() const {
    const Tensor g =
        spec.has_total() ? v.gradient() / result(spec.total) : scaled(v, at.rows.numel());
    return spec.reduction == Reduction::none ? kept(g) : g;
  }
  // The gradient of each row's loss; 0 for ignored rows.
  Tensor gradient_or_none() const {
    const Tensor g = gradient();
    return spec.probabilities ? g : volta::where(label().lt(0), 0, g);
  }
  // Whether a class is the row's label. False for all classes of an ignored row.
  Tensor hot() const {
    const Tensor column = arange(at.classes, {.device = v.device(0)}, v.place());
    return reshape_to(column, at.by_class, v.place()).eq(label());
  }
  Tensor weight() const { return reshape_to(v.input(spec.weight), at.by_class, v.place()); }
  Tensor over_classes(const Tensor& each) const {
    const std::int64_t axis = at.axis;
    return sum_axes(expand_to(each, v.shape(0), v.place()), {&axis, 1}, true, v.place());
  }
};

// p times the sum of the shares, minus the shares. The shares are the weights that a row's target
// assigns to the classes.
Tensor labelled(const Rows& rows, const Tensor& p) {
  const ClassLoss& spec = rows.spec;
  const Tensor hot = rows.hot();
  if (!spec.weighted && !spec.smoothed) return volta::where(hot, p - 1, p);
  if (!spec.smoothed) {
    return volta::where(hot, p - 1, p) * rows.over_classes(volta::where(hot, rows.weight(), 0));
  }
  const Tensor &smoothing = rows.v.input(spec.smoothing), own = 1 - smoothing;
  const Tensor others = smoothing / static_cast<double>(rows.at.classes);
  if (!spec.weighted) return volta::where(hot, p - own, p) - others;
  const Tensor share =
      volta::where(hot, own * rows.over_classes(volta::where(hot, rows.weight(), 0)), 0) +
      others * rows.weight();
  return p * rows.over_classes(share) - share;
}

}  // namespace

void mse_loss(Vjp& v) {
  v.widen();
  const Tensor d = (v.input(0) - v.input(1)) * scaled(v, v.shape(0).numel(), 2);
  if (v.needs(0)) v.give(0, d);
  if (v.needs(1)) v.give(1, -d);
}

// (softmax - target) times the gradient of each row's loss. The target is one-hot, smoothed,
// weighted, or given as probabilities.
void cross_entropy(Vjp& v) {
  v.widen();
  const Rows rows(v);
  const ClassLoss& spec = rows.spec;
  const Tensor& logits = v.input(0);
  const Tensor g = rows.gradient_or_none();
  const Tensor log_p = v.with_history()
                           ? volta::log_softmax(logits, rows.at.axis, v.place())
                           : logits - rows.kept(v.auxiliary(0)) - rows.kept(v.auxiliary(1));
  const auto p = [&] {
    return v.with_history() ? volta::softmax(logits, rows.at.axis, v.place()) : log_p.exp();
  };
  if (!spec.probabilities) return v.give(0, labelled(rows, p()) * g);
  const Tensor& target = v.input(1);
  Tensor own = spec.smoothed ? 1 - v.input(spec.smoothing) : Tensor();
  if (v.needs(0)) {
    Tensor share = target;
    if (spec.smoothed) {
      share = share * own + v.input(spec.smoothing) / static_cast<double>(rows.at.classes);
    }
    if (spec.weighted) share = share * rows.weight();
    v.give(0, (p() * rows.over_classes(share) - share) * g);
  }
  if (v.needs(1)) {
    Tensor slope = -log_p * g;
    if (spec.smoothed) slope = slope * own;
    if (spec.weighted) slope = slope * rows.weight();
    v.give(1, slope);
  }
}

void nll_loss(Vjp& v) {
  v.widen();
  const Rows rows(v);
  Tensor slope = -rows.gradient();
  if (rows.spec.weighted) slope = slope * rows.weight();
  v.give(0, expand_to(volta::where(rows.hot(), slope, 0), v.shape(0), v.place()));
}

}  // namespace volta::graph::vjp
