// Updates of all parameters, and reductions over all of their gradients, in primitives, for
// building plans.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/attributes/optimizer.h"
#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/lists.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Lowering;

namespace {

// The part of an update for GradScaler, whose tensors are the last inputs. Gradients are multiplied
// by the inverse of the scale; if one of them is not finite, nothing is changed.
class Scaling {
 public:
  Scaling(Lowering& l, std::int64_t kind) : l_(l) {
    if (kind == kUnscaled) return;
    const int found = l.inputs() - (kind == kChecksAndUnscales ? 2 : 1);
    skips_ = l.binary(ScalarOp::ne, l.in(found), l.constant(0, DType::f32));
    if (kind == kChecksAndUnscales) inverse_ = l.in(found + 1);
  }
  Expr gradient(Expr g) const { return inverse_.is_none() ? g : g * l_.cast(inverse_, g.dtype()); }
  void out(int number, Expr now, Expr before) const {
    l_.out(number, skips_.is_none() ? now : l_.where(skips_, before, now));
  }

 private:
  Lowering& l_;
  Expr skips_, inverse_;
};

// One parameter of an update. Its value, gradient and states are inputs of the operation, its value
// and states are results. The numbers of the formula follow the inputs of the last parameter.
class Parameter {
 public:
  Parameter(Lowering& l, const Scaling& scaling, int number, int states, bool maximize)
      : l_(l),
        scaling_(scaling),
        first_in_(number * (states + 2)),
        first_out_(number * (states + 1)),
        first_number_(static_cast<int>(l.attrs()[0]) * (states + 2)),
        value_(l.in(first_in_)),
        gradient_(scaling.gradient(l.in(first_in_ + 1))) {
    if (maximize) gradient_ = l.unary(ScalarOp::neg, gradient_);
  }
  Expr value() const { return value_; }
  Expr gradient() const { return gradient_; }
  Expr state(int i) const { return l_.in(first_in_ + 2 + i); }
  Expr number(int i) const { return l_.cast(l_.in(first_number_ + i), value_.dtype()); }
  void out_value(Expr now) const { scaling_.out(first_out_, now, value_); }
  void out_state(int i, Expr now, Expr before) const {
    scaling_.out(first_out_ + 1 + i, now, before);
  }
  void out_state(int i, Expr now) const { out_state(i, now, state(i)); }

 private:
  Lowering& l_;
  const Scaling& scaling_;
  int first_in_, first_out_, first_number_;
  Expr value_, gradient_;
};

// Attributes: the number of parameters, the optimizer's choices..., scaling.
template <class Each>
void update_all(Lowering& l, int states, bool maximize, Each each) {
  const auto attrs = l.attrs();
  const Scaling scaling(l, attrs.back());
  for (int i = 0; i < static_cast<int>(attrs[0]); ++i)
    each(Parameter(l, scaling, i, states, maximize));
}

// The part of a reduction over a list that the node is (graph::ReductionPart): the last attribute
// where it is not the first one of all.
ReductionPart part_of(const Lowering& l, std::size_t attrs) {
  return l.attrs().size() == attrs ? ReductionPart::Whole
                                   : static_cast<ReductionPart>(l.attrs().back());
}

Expr joined_numbers(Lowering& l, ReduceOp op, std::span<const Expr> parts) {
  Expr sum = parts[0];
  for (const Expr part : parts.subspan(1))
    sum = l.binary(op == ReduceOp::Sum ? ScalarOp::add : ScalarOp::maximum, sum, part);
  return sum;
}

// Each input's elements to one number, then those numbers: few at once, so that kernels with the
// same text are one launch, however many inputs there are.
template <class Each>
Expr over_all(Lowering& l, ReduceOp op, ReductionPart part, Each each) {
  std::vector<Expr> parts;
  for (int i = 0; i < l.inputs(); ++i) {
    const Expr x = l.in(i);
    if (part == ReductionPart::Join || part == ReductionPart::Last) {
      parts.push_back(x);
      continue;
    }
    if (x.shape().numel() == 0) continue;
    auto axes = x.shape().per_axis<std::int64_t>();
    std::iota(axes.begin(), axes.end(), 0);
    const Expr number = each(x);
    parts.push_back(l.cast(axes.empty() ? number : l.reduce(op, number, axes), l.dtype()));
  }
  if (parts.empty()) return l.constant(0, l.dtype());
  while (parts.size() > 1) {
    const std::size_t groups = (parts.size() + kJoinedAtOnce - 1) / kJoinedAtOnce;
    std::vector<Expr> fewer;
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t first = parts.size() * i / groups, end = parts.size() * (i + 1) / groups;
      const Expr sum = joined_numbers(l, op, std::span(parts).subspan(first, end - first));
      fewer.push_back(groups > 1 ? l.stored(sum) : sum);
    }
    parts = std::move(fewer);
  }
  return parts[0];
}

}  // namespace

// Inputs for each parameter: value, gradient, buffer (with momentum). Numbers: lr, momentum,
// 1 - dampening, decay. Attributes: parameters, momentum, nesterov, decay, dampening, first step,
// maximize, scaling.
void sgd(Lowering& l) {
  const auto attrs = l.attrs();
  const int count = static_cast<int>(attrs[0]);
  const bool momentum = attrs[1] != 0, nesterov = attrs[2] != 0, decay = attrs[3] != 0,
             dampening = attrs[4] != 0, first = attrs[5] != 0, maximize = attrs[6] != 0;
  const int each = momentum && !first ? 3 : 2, scalars = each * count;
  const Scaling scaling(l, attrs[7]);
  for (int i = 0; i < count; ++i) {
    const Expr p = l.in(each * i);
    Expr g = scaling.gradient(l.in(each * i + 1));
    const auto scalar = [&](int k) { return l.cast(l.in(scalars + k), p.dtype()); };
    if (maximize) g = l.unary(ScalarOp::neg, g);
    if (decay) g = g + p * scalar(3);
    const Expr before = momentum && !first ? l.in(each * i + 2) : literal(l, 0, p);
    Expr buffer = g;
    if (momentum && !first) buffer = before * scalar(1) + (dampening ? g * scalar(2) : g);
    if (momentum) g = nesterov ? g + buffer * scalar(1) : buffer;
    scaling.out((momentum ? 2 : 1) * i, p - g * scalar(0), p);
    if (momentum) scaling.out(2 * i + 1, buffer, before);
  }
}

// States: first moment, second moment, step count, and the largest second moment with amsgrad.
// Numbers: lr, 1 - beta1, beta2, 1 - beta2, eps, decay, log beta1, log beta2. Attributes:
// parameters, decay (0 none, 1 L2, 2 decoupled), amsgrad, maximize, scaling. The bias correction is
// -expm1(t log beta), because 1 - beta^t in f32 has an error of 2e-5.
void adam(Lowering& l) {
  const std::int64_t decay = l.attrs()[1];
  const bool amsgrad = l.attrs()[2] != 0;
  update_all(l, amsgrad ? 4 : 3, l.attrs()[3] != 0, [&](const Parameter& parameter) {
    Expr p = parameter.value(), g = parameter.gradient();
    const auto scalar = [&](int k) { return parameter.number(k); };
    const Expr m = parameter.state(0), v = parameter.state(1);
    const Expr next = parameter.state(2) + l.constant(1, DType::f32);
    const Expr step = l.cast(next, p.dtype());
    if (decay == 1) g = g + p * scalar(5);
    if (decay == 2) p = p - p * (scalar(0) * scalar(5));
    const Expr first = m + (g - m) * scalar(1);
    const Expr second = v * scalar(2) + g * g * scalar(3);
    Expr divisor = second;
    if (amsgrad) divisor = l.binary(ScalarOp::maximum, parameter.state(3), second);
    const auto correction = [&](int log_beta) {
      return l.unary(ScalarOp::neg, l.unary(ScalarOp::expm1, step * scalar(log_beta)));
    };
    const Expr rate = scalar(0) / correction(6);
    const Expr deviation =
        l.unary(ScalarOp::sqrt, divisor) / l.unary(ScalarOp::sqrt, correction(7)) + scalar(4);
    parameter.out_value(p - first / deviation * rate);
    parameter.out_state(0, first);
    parameter.out_state(1, second);
    parameter.out_state(2, next);
    if (amsgrad) parameter.out_state(3, divisor);
  });
}

// States: average of squares, average of gradients (if centered), momentum (if any). Numbers: lr,
// alpha, 1 - alpha, eps, momentum, decay. Attributes: parameters, decay, centered, momentum,
// maximize, scaling.
void rmsprop(Lowering& l) {
  const auto attrs = l.attrs();
  const bool decay = attrs[1] != 0, centered = attrs[2] != 0, momentum = attrs[3] != 0;
  const int states = 1 + static_cast<int>(centered) + static_cast<int>(momentum);
  update_all(l, states, attrs[4] != 0, [&](const Parameter& parameter) {
    const Expr p = parameter.value();
    Expr g = parameter.gradient();
    const auto scalar = [&](int k) { return parameter.number(k); };
    if (decay) g = g + p * scalar(5);
    const Expr squares = parameter.state(0) * scalar(1) + g * g * scalar(2);
    Expr variance = squares;
    if (centered) {
      const Expr before = parameter.state(1), average = before + (g - before) * scalar(2);
      variance = squares - average * average;
      parameter.out_state(1, average);
    }
    Expr step = g / (l.unary(ScalarOp::sqrt, variance) + scalar(3));
    if (momentum) {
      step = parameter.state(states - 1) * scalar(4) + step;
      parameter.out_state(states - 1, step);
    }
    parameter.out_value(p - step * scalar(0));
    parameter.out_state(0, squares);
  });
}

// States: sum of squares, step count. Numbers: lr, its decay, eps, weight decay. Attributes:
// parameters, decay, maximize, scaling.
void adagrad(Lowering& l) {
  const bool decay = l.attrs()[1] != 0;
  update_all(l, 2, l.attrs()[2] != 0, [&](const Parameter& parameter) {
    const Expr p = parameter.value(), steps = parameter.state(1), one = literal(l, 1, p);
    Expr g = parameter.gradient();
    const auto scalar = [&](int k) { return parameter.number(k); };
    if (decay) g = g + p * scalar(3);
    const Expr sum = parameter.state(0) + g * g;
    const Expr rate = scalar(0) / (one + l.cast(steps, p.dtype()) * scalar(1));
    parameter.out_value(p - g / (l.unary(ScalarOp::sqrt, sum) + scalar(2)) * rate);
    parameter.out_state(0, sum);
    parameter.out_state(1, steps + l.constant(1, DType::f32));
  });
}

// State: average of gradients. Numbers: lr, 1 - beta1, 1 - beta2, decay. Attributes: parameters,
// decay, scaling.
void lion(Lowering& l) {
  const bool decay = l.attrs()[1] != 0;
  update_all(l, 1, false, [&](const Parameter& parameter) {
    Expr p = parameter.value();
    const Expr g = parameter.gradient(), m = parameter.state(0);
    const auto scalar = [&](int k) { return parameter.number(k); };
    if (decay) p = p - p * (scalar(0) * scalar(3));
    parameter.out_value(p - l.unary(ScalarOp::sign, m + (g - m) * scalar(1)) * scalar(0));
    parameter.out_state(0, m + (g - m) * scalar(2));
  });
}

namespace {

// Approximates the nearest orthogonal matrix: divides x by its norm, then repeats x <- a x + b (x
// xᵀ) x + c (x xᵀ)² x. Values are rounded to bf16 where PyTorch does so. The smaller of x xᵀ and xᵀ
// x is used.
Expr orthogonalized(Lowering& l, Expr x, std::int64_t steps, Expr eps,
                    const std::array<Expr, 3>& coefficients) {
  const auto& [a, b, c] = coefficients;
  const bool tall = x.shape()[0] > x.shape()[1];
  const auto wide = [&](Expr half) { return l.cast(half, DType::f32); };
  const auto rounded = [&](Expr full) { return l.cast(full, DType::bf16); };
  const std::int64_t axes[] = {0, 1};
  const Expr start = wide(rounded(x));
  const Expr norm = rounded(l.unary(ScalarOp::sqrt, l.reduce(ReduceOp::Sum, start * start, axes)));
  x = l.stored(rounded(start / l.binary(ScalarOp::maximum, wide(norm), wide(rounded(eps)))));
  for (std::int64_t i = 0; i < steps; ++i) {
    const Expr gram = l.stored(plan::matmul(l, x, x, tall, !tall, false));
    const Expr square = plan::matmul(l, wide(gram), wide(gram), false, false, false);
    const Expr factor = l.stored(rounded(wide(gram) * b + square * c));
    const Expr product = tall ? plan::matmul(l, wide(x), wide(factor), false, false, false)
                              : plan::matmul(l, wide(factor), wide(x), false, false, false);
    x = l.stored(rounded(wide(x) * a + product));
  }
  return wide(x);
}

}  // namespace

// State: momentum. Numbers: lr, momentum, 1 - momentum, decay, eps, a, b, c. Attributes:
// parameters, nesterov, iterations, whether learning rates match AdamW, scaling.
void muon(Lowering& l) {
  const auto attrs = l.attrs();
  const bool nesterov = attrs[1] != 0, matches_adamw = attrs[3] != 0;
  update_all(l, 1, false, [&](const Parameter& parameter) {
    const Expr p = parameter.value(), g = parameter.gradient(), before = parameter.state(0);
    const auto scalar = [&](int k) { return parameter.number(k); };
    const auto number = [&](int k) { return l.cast(scalar(k), DType::f32); };
    const Expr momentum = before + (g - before) * scalar(2);
    parameter.out_state(0, momentum);
    if (p.shape().numel() == 0) return parameter.out_value(p);
    const Expr direction = nesterov ? g + (momentum - g) * scalar(1) : momentum;
    const Expr step =
        orthogonalized(l, direction, attrs[2], number(4), {number(5), number(6), number(7)});
    const Expr rows = l.size(p.shape()[0], p.dtype()), columns = l.size(p.shape()[1], p.dtype());
    const Expr adjustment =
        matches_adamw ? l.unary(ScalarOp::sqrt, l.binary(ScalarOp::maximum, rows, columns)) *
                            l.constant(0.2, p.dtype())
                      : l.unary(ScalarOp::sqrt, l.binary(ScalarOp::maximum, rows / columns,
                                                         l.constant(1, p.dtype())));
    const Expr kept = p - p * (scalar(0) * scalar(3));
    parameter.out_value(kept - l.cast(step, p.dtype()) * (scalar(0) * adjustment));
  });
}

void any_nonfinite(Lowering& l) {
  l.out(over_all(l, ReduceOp::Max, part_of(l, 0), [&](Expr x) {
    const Expr infinity = literal(l, std::numeric_limits<double>::infinity(), x);
    const Expr finite = l.binary(ScalarOp::lt, l.unary(ScalarOp::abs, x), infinity);
    return l.where(finite, l.constant(0, DType::f32), l.constant(1, DType::f32));
  }));
}

// Computes (sum |x|^p)^(1/p), or the largest |x|. Attributes: the bits of p.
void total_norm(Lowering& l) {
  const double p = std::bit_cast<double>(l.attrs()[0]);
  const ReductionPart part = part_of(l, 1);
  const auto magnitude = [&](Expr x) { return l.unary(ScalarOp::abs, x); };
  if (std::isinf(p)) return l.out(over_all(l, ReduceOp::Max, part, magnitude));
  const Expr sum = over_all(l, ReduceOp::Sum, part, [&](Expr x) {
    if (p == 2) return x * x;
    return p == 1 ? magnitude(x) : l.binary(ScalarOp::pow, magnitude(x), literal(l, p, x));
  });
  const bool is_done = part == ReductionPart::Whole || part == ReductionPart::Last;
  if (p == 1 || !is_done) return l.out(sum);
  if (p == 2) return l.out(l.unary(ScalarOp::sqrt, sum));
  l.out(l.binary(ScalarOp::pow, sum, literal(l, 1 / p, sum)));
}

}  // namespace volta::graph::expand
