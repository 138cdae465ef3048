// Updates of all parameters, and numbers over all of their gradients, in primitives; used when a
// plan is built.
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/expand.h"
#include "graph/optimizer.h"
#include "graph/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Lowering;

namespace {

// What GradScaler adds to an update: gradients are multiplied by the inverse of the scale, and
// where one of them is not finite everything stays as it was. The last inputs.
class Scaling {
 public:
  Scaling(Lowering& l, std::int64_t kind) : l_(l) {
    if (kind == kUnscaled) return;
    const int found = l.inputs() - (kind == kChecksAndUnscales ? 2 : 1);
    skips_ = l.binary(ScalarOp::ne, l.in(found), l.constant(0, DType::f32));
    if (kind == kChecksAndUnscales) inverse_ = l.in(found + 1);
  }
  Expr gradient(Expr g) const {
    return inverse_.lowering == nullptr ? g : g * l_.cast(inverse_, g.dtype());
  }
  void out(int number, Expr now, Expr before) const {
    l_.out(number, skips_.lowering == nullptr ? now : l_.where(skips_, before, now));
  }

 private:
  Lowering& l_;
  Expr skips_, inverse_;
};

// Each input's elements to one number, then those numbers: few at once, so that kernels with the
// same text are one launch, however many inputs there are.
template <class Each>
Expr over_all(Lowering& l, ReduceOp op, Each each) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<Expr> parts;
  for (int i = 0; i < l.inputs(); ++i) {
    const Expr x = l.in(i);
    if (x.shape().numel() == 0) continue;
    std::vector<std::int64_t> axes(static_cast<std::size_t>(x.shape().rank()));
    std::iota(axes.begin(), axes.end(), 0);
    const Expr part = each(x);
    parts.push_back(l.cast(axes.empty() ? part : l.reduce(op, part, axes), l.dtype()));
  }
  if (parts.empty()) return l.constant(0, l.dtype());
  while (parts.size() > 1) {
    const std::size_t groups = (parts.size() + kAtOnce - 1) / kAtOnce;
    std::vector<Expr> fewer;
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t first = parts.size() * i / groups, end = parts.size() * (i + 1) / groups;
      Expr sum = parts[first];
      for (std::size_t k = first + 1; k < end; ++k) {
        sum = l.binary(op == ReduceOp::Sum ? ScalarOp::add : ScalarOp::maximum, sum, parts[k]);
      }
      fewer.push_back(groups > 1 ? l.stored(sum) : sum);
    }
    parts = std::move(fewer);
  }
  return parts[0];
}

}  // namespace

// Per parameter: value, gradient, buffer (if momentum). Then lr, momentum, 1 - dampening, decay.
// attrs: parameters, momentum, nesterov, decay, first step, scaling
void sgd(Lowering& l) {
  const auto attrs = l.attrs();
  const int count = static_cast<int>(attrs[0]);
  const bool momentum = attrs[1] != 0, nesterov = attrs[2] != 0, decay = attrs[3] != 0,
             first = attrs[4] != 0;
  const int each = momentum && !first ? 3 : 2, scalars = each * count;
  const Scaling scaling(l, attrs[5]);
  for (int i = 0; i < count; ++i) {
    const Expr p = l.in(each * i);
    Expr g = scaling.gradient(l.in(each * i + 1));
    const auto scalar = [&](int k) { return l.cast(l.in(scalars + k), p.dtype()); };
    if (decay) g = g + p * scalar(3);
    const Expr before = momentum && !first ? l.in(each * i + 2) : literal(l, 0, p);
    Expr buffer = g;
    if (momentum && !first) buffer = before * scalar(1) + g * scalar(2);
    if (momentum) g = nesterov ? g + buffer * scalar(1) : buffer;
    scaling.out((momentum ? 2 : 1) * i, p - g * scalar(0), p);
    if (momentum) scaling.out(2 * i + 1, buffer, before);
  }
}

// Per parameter: value, gradient, first and second moment, step count. Then lr, 1 - beta1, beta2, 1
// - beta2, eps, decay, log beta1, log beta2. attrs: parameters, decay (0 none, 1 L2, 2 decoupled),
// scaling. Bias correction is -expm1(t log beta): 1 - beta^t in f32 errs by 2e-5.
void adam(Lowering& l) {
  const int count = static_cast<int>(l.attrs()[0]);
  const std::int64_t decay = l.attrs()[1];
  const Scaling scaling(l, l.attrs()[2]);
  for (int i = 0; i < count; ++i) {
    const Expr before = l.in(5 * i), m = l.in(5 * i + 2), v = l.in(5 * i + 3), t = l.in(5 * i + 4);
    Expr p = before, g = scaling.gradient(l.in(5 * i + 1));
    const auto scalar = [&](int k) { return l.cast(l.in(5 * count + k), p.dtype()); };
    const Expr next = t + l.constant(1, DType::f32);
    const Expr step = l.cast(next, p.dtype());
    if (decay == 1) g = g + p * scalar(5);
    if (decay == 2) p = p - p * (scalar(0) * scalar(5));
    const Expr first = m + (g - m) * scalar(1);
    const Expr second = v * scalar(2) + g * g * scalar(3);
    const auto correction = [&](int log_beta) {
      return l.unary(ScalarOp::neg, l.unary(ScalarOp::expm1, step * scalar(log_beta)));
    };
    const Expr rate = scalar(0) / correction(6);
    const Expr deviation =
        l.unary(ScalarOp::sqrt, second) / l.unary(ScalarOp::sqrt, correction(7)) + scalar(4);
    scaling.out(4 * i, p - first / deviation * rate, before);
    scaling.out(4 * i + 1, first, m);
    scaling.out(4 * i + 2, second, v);
    scaling.out(4 * i + 3, next, t);
  }
}

void any_nonfinite(Lowering& l) {
  l.out(over_all(l, ReduceOp::Max, [&](Expr x) {
    const Expr infinity = literal(l, std::numeric_limits<double>::infinity(), x);
    const Expr finite = l.binary(ScalarOp::lt, l.unary(ScalarOp::abs, x), infinity);
    return l.where(finite, l.constant(0, DType::f32), l.constant(1, DType::f32));
  }));
}

// (sum |x|^p)^(1/p), or the largest |x|. attrs: bits of p
void total_norm(Lowering& l) {
  const double p = std::bit_cast<double>(l.attrs()[0]);
  const auto magnitude = [&](Expr x) { return l.unary(ScalarOp::abs, x); };
  if (std::isinf(p)) return l.out(over_all(l, ReduceOp::Max, magnitude));
  const Expr sum = over_all(l, ReduceOp::Sum, [&](Expr x) {
    if (p == 2) return x * x;
    return p == 1 ? magnitude(x) : l.binary(ScalarOp::pow, magnitude(x), literal(l, p, x));
  });
  if (p == 2) return l.out(l.unary(ScalarOp::sqrt, sum));
  l.out(p == 1 ? sum : l.binary(ScalarOp::pow, sum, literal(l, 1 / p, sum)));
}

}  // namespace volta::graph::expand
