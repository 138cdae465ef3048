// Losses that are recorded as one node, in primitives, for building plans.
#include <numeric>

#include "graph/attributes/class_loss.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Lowering;
using plan::Shape;
using Axis = ClassAxisOf<Shape>;

namespace {

Expr sum_of_all(Lowering& l, Expr x) {
  auto axes = x.shape().per_axis<std::int64_t>();
  std::iota(axes.begin(), axes.end(), 0);
  return l.reduce(ReduceOp::Sum, x, axes);
}

Expr reduced(Lowering& l, Expr losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  const Expr sum = sum_of_all(l, losses);
  return reduction == Reduction::sum ? sum : sum / l.size(losses.shape().numel(), losses.dtype());
}

// The labels of rows, and the values read at them.
struct Labels {
  Lowering& l;
  const ClassLoss& spec;
  const Axis& at;
  Expr label, is_kept;

  Labels(Lowering& lowering, const ClassLoss& loss, const Axis& place, int site)
      : l(lowering), spec(loss), at(place) {
    const Expr given = l.in(1);
    is_kept = l.binary(ScalarOp::ne, given, l.in(spec.ignored));
    label = l.bounded(l.where(is_kept, given, l.constant(0, given.dtype())), at.classes, site);
    l.out(spec.label, l.where(is_kept, label, l.constant(-1, label.dtype())));
  }

  // For each row, the element of x [.., classes, ..] at its label.
  Expr picked(Expr x) const {
    const std::int64_t axis = at.axis;
    const Expr hot = l.binary(ScalarOp::eq, l.iota(x.shape(), at.axis), l.reshape(label, at.kept));
    return l.reduce(ReduceOp::Sum, l.where(hot, x, literal(l, 0, x)), {&axis, 1});
  }
  Expr only_kept(Expr rows) const { return l.where(is_kept, rows, literal(l, 0, rows)); }
  Expr weights() const { return l.gather(l.in(spec.weight), label); }
  // The number that a mean divides by.
  Expr total(DType dtype) const {
    return sum_of_all(l, only_kept(spec.weighted ? l.cast(weights(), dtype)
                                                 : l.expand(l.constant(1, dtype), at.rows)));
  }
  // Sets the results: the loss, and the total if there is one.
  void out(Expr losses) const {
    if (!spec.has_total()) return l.out(0, reduced(l, losses, spec.reduction));
    const Expr divisor = total(losses.dtype());
    l.out(0, sum_of_all(l, losses) / divisor);
    l.out(spec.total, divisor);
  }
};

}  // namespace

void mse_loss(Lowering& l) {
  const Expr d = l.in(0) - l.in(1);
  l.out(reduced(l, d * d, static_cast<Reduction>(l.attrs()[0])));
}

// For each row, log sum exp minus the logit of the label, or minus the average logit under the
// target's probabilities. The largest logit and the logarithm are not added first, because the
// logarithm would be lost among large logits.
void cross_entropy(Lowering& l) {
  const ClassLoss spec(OpId::cross_entropy, l.attrs());
  const int site = l.next_site();  // for probabilities too: sites are counted by operation
  const Expr x = l.in(0);
  const Axis at(x.shape());
  const std::int64_t axis = at.axis;
  const auto over_classes = [&](Expr each) { return l.reduce(ReduceOp::Sum, each, {&axis, 1}); };
  const Expr largest = l.reduce(ReduceOp::Max, x, {&axis, 1}, true);
  const Expr top = l.reshape(largest, at.rows);
  const Expr log_sum = l.unary(ScalarOp::log, over_classes(l.unary(ScalarOp::exp, x - largest)));
  const Expr one = literal(l, 1, x), classes = l.size(at.classes, x.dtype());
  const Expr smoothing = spec.smoothed ? l.cast(l.in(spec.smoothing), x.dtype()) : Expr();
  const Expr weight =
      spec.weighted ? l.expand(l.reshape(l.in(spec.weight), at.by_class), x.shape()) : Expr();
  l.out(1, top);
  l.out(2, log_sum);
  // The sum over all classes of share (log sum exp - x), for the classes' shares of the row.
  const auto shared = [&](Expr share) {
    return over_classes(share * (largest - x)) + log_sum * over_classes(share);
  };
  if (spec.probabilities) {
    Expr share = l.in(1);
    if (spec.smoothed) share = share * (one - smoothing) + smoothing / classes;
    if (spec.weighted) share = share * weight;
    return l.out(0, reduced(l, shared(share), spec.reduction));
  }
  const Labels labels(l, spec, at, site);
  Expr losses = (top - labels.picked(x)) + log_sum;
  if (spec.weighted) losses = losses * labels.weights();
  if (spec.smoothed) {
    const Expr others =
        spec.weighted ? shared(weight) : over_classes(largest - x) + log_sum * classes;
    losses = losses * (one - smoothing) + others * (smoothing / classes);
  }
  labels.out(labels.only_kept(losses));
}

void nll_loss(Lowering& l) {
  const ClassLoss spec(OpId::nll_loss, l.attrs());
  const Expr x = l.in(0);
  const Axis at(x.shape());
  const Labels labels(l, spec, at, l.next_site());
  Expr losses = l.unary(ScalarOp::neg, labels.picked(x));
  if (spec.weighted) losses = losses * labels.weights();
  labels.out(labels.only_kept(losses));
}

}  // namespace volta::graph::expand
