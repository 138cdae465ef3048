// Operations with history, and the backward pass, of the reference evaluator.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "random_graph/random_graph_evaluator.h"

namespace volta::random_graph {
namespace {

bool grad_enabled = true;

bool wants_gradient(const Ref& x) { return x && (x->requires_grad || x->tape); }

Array both(Op op, const Array& a, const Array& b) {
  const DType dtype = promoted(a.dtype, b.dtype);
  return binary(op, cast(a, dtype), cast(b, dtype));
}
Array add(const Array& a, const Array& b) { return both(Op::add, a, b); }
Array sub(const Array& a, const Array& b) { return both(Op::sub, a, b); }
Array mul(const Array& a, const Array& b) { return both(Op::mul, a, b); }
Array div(const Array& a, const Array& b) { return both(Op::div, a, b); }
Array number(double value, const Array& beside) { return filled({}, value, beside.dtype); }
Array add(const Array& a, double b) { return add(a, number(b, a)); }
Array sub(double a, const Array& b) { return sub(number(a, b), b); }
Array mul(const Array& a, double b) { return mul(a, number(b, a)); }
Array neg(const Array& a) { return unary(Op::neg, a); }

Array unary_gradient(Op op, const Array& g, const Array& x, const Array& y) {
  switch (op) {
    case Op::neg:
      return neg(g);
    case Op::abs:
      return mul(g, unary(Op::sign, x));
    case Op::exp:
      return mul(g, y);
    case Op::expm1:
      return mul(g, add(y, 1));
    case Op::log:
      return div(g, x);
    case Op::log1p:
      return div(g, add(x, 1));
    case Op::sqrt:
      return div(mul(g, 0.5), y);
    case Op::rsqrt:
      return mul(mul(g, -0.5), mul(mul(y, y), y));
    case Op::square:
      return mul(mul(g, 2), x);
    case Op::reciprocal:
      return neg(mul(g, mul(y, y)));
    case Op::sin:
      return mul(g, unary(Op::cos, x));
    case Op::cos:
      return neg(mul(g, unary(Op::sin, x)));
    case Op::tanh:
      return mul(g, sub(1, mul(y, y)));
    case Op::sigmoid:
      return mul(mul(g, y), sub(1, y));
    case Op::erf:
      return mul(mul(g, 2 * std::numbers::inv_sqrtpi), unary(Op::exp, neg(mul(x, x))));
    case Op::relu:
      return where(binary(Op::le, y, number(0, y)), number(0, g), g);
    case Op::gelu: {
      const Array erf = unary(Op::erf, mul(x, std::numbers::sqrt2 / 2));
      const Array pdf = mul(unary(Op::exp, mul(mul(x, x), -0.5)),
                            std::numbers::inv_sqrtpi * std::numbers::sqrt2 / 2);
      return mul(g, add(mul(add(erf, 1), 0.5), mul(x, pdf)));
    }
    case Op::silu: {
      const Array s = unary(Op::sigmoid, x);
      return mul(mul(g, s), add(mul(x, sub(1, s)), 1));
    }
    default:  // step functions
      return filled(x.dims, 0, x.dtype);
  }
}

Dims kept_dims(const Array& x, const Dims& axes) {
  Dims dims = x.dims;
  for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis)] = 1;
  return dims;
}
// Broadcasts a reduced gradient to the input's shape.
Array spread(const Array& g, const Array& x, const Dims& axes) {
  return expand(reshape(g, kept_dims(x, axes)), x.dims);
}

bool expands(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    if (from[from.size() - i] != 1 && from[from.size() - i] != to[to.size() - i]) return false;
  }
  return true;
}

// Converts a gradient to the shape and dtype of its value.
Array fitted(const Array& g, const Edge& edge) {
  return cast(expands(g.dims, edge.dims) ? expand(g, edge.dims) : sum_to(g, edge.dims), edge.dtype);
}

}  // namespace

GradMode::GradMode(bool enabled) : previous_(grad_enabled) { grad_enabled = enabled; }
GradMode::~GradMode() { grad_enabled = previous_; }
bool GradMode::enabled() { return grad_enabled; }

Ref constant(Array value) {
  Ref result = std::make_shared<Variable>();
  result->value = std::move(value);
  return result;
}

Ref recorded(Array value, const std::vector<Ref>& inputs, Pull pull) {
  static std::uint64_t sequence = 0;
  Ref result = constant(std::move(value));
  if (!grad_enabled || !is_floating(result->value.dtype)) return result;
  if (std::none_of(inputs.begin(), inputs.end(), wants_gradient)) return result;
  result->tape = std::make_shared<Tape>();
  result->tape->sequence = ++sequence;
  result->tape->pull = std::move(pull);
  for (const Ref& input : inputs) {
    Edge edge;
    if (input) {
      edge.dims = input->value.dims;
      edge.dtype = input->value.dtype;
      if (is_floating(edge.dtype) && input->tape) {
        edge.tape = input->tape;
      } else if (is_floating(edge.dtype) && input->requires_grad) {
        edge.leaf = input;
      }
    }
    result->tape->edges.push_back(std::move(edge));
  }
  return result;
}

namespace {

// A gradient that is added to loses the history that it had.
void accumulate(Variable& leaf, const Array& part) {
  if (!leaf.grad) {
    leaf.grad = constant(part);
    return;
  }
  leaf.grad->value = add(leaf.grad->value, part);
  leaf.grad->tape.reset();
}

}  // namespace

void run_backward(const Ref& root, const Array& gradient, bool retain_graph) {
  if (!root->tape) {
    if (!root->requires_grad) throw Invalid("backward without history");
    accumulate(*root, gradient);
    return;
  }
  std::vector<TapeRef> found{root->tape};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Edge& edge : found[i]->edges) {
      if (edge.tape && std::find(found.begin(), found.end(), edge.tape) == found.end())
        found.push_back(edge.tape);
    }
  }
  for (const TapeRef& tape : found) {
    if (tape->consumed) throw Invalid("backward through a consumed history");
  }
  std::sort(found.begin(), found.end(),
            [](const TapeRef& a, const TapeRef& b) { return a->sequence > b->sequence; });
  const GradMode off(false);
  root->tape->gradient = gradient;
  for (const TapeRef& tape : found) {
    if (tape->gradient) {
      const Pulled pulled = tape->pull(*tape->gradient);
      for (std::size_t i = 0; i < tape->edges.size(); ++i) {
        const Edge& edge = tape->edges[i];
        if (i >= pulled.size() || !pulled[i] || !edge.wanted()) continue;
        const Array part = fitted(*pulled[i], edge);
        if (edge.tape) {
          edge.tape->gradient = edge.tape->gradient ? add(*edge.tape->gradient, part) : part;
        } else {
          accumulate(*edge.leaf, part);
        }
      }
      tape->gradient.reset();
    }
    if (!retain_graph) tape->consumed = true;
  }
}

Ref unary(Op op, const Ref& x) {
  Array y = unary(op, x->value);
  return recorded(y, {x}, [op, x = x->value, y](const Array& g) {
    return Pulled{unary_gradient(op, g, x, y)};
  });
}

Ref cast(const Ref& x, DType dtype) {
  if (x->value.dtype == dtype) return x;
  return recorded(cast(x->value, dtype), {x}, [](const Array& g) { return Pulled{g}; });
}

Ref clone(const Ref& x) {
  return recorded(x->value, {x}, [](const Array& g) { return Pulled{g}; });
}

Ref binary(Op op, const Ref& left, const Ref& right) {
  DType dtype = promoted(left->value, right->value);
  if (op == Op::div && !is_floating(dtype)) dtype = DType::f32;
  if (op == Op::pow && !is_floating(dtype)) throw Invalid("a power of integers may wrap");
  const Ref x = cast(left, dtype), y = cast(right, dtype);
  Array result = binary(op, x->value, y->value);
  return recorded(result, {x, y}, [op, a = x->value, b = y->value, result](const Array& g) {
    const auto chosen = [&](const Array& mine, const Array& other, Op beaten) {
      const Array half = mul(g, 0.5), zero = number(0, g);
      return where(binary(Op::eq, mine, other), half, where(binary(beaten, mine, other), zero, g));
    };
    switch (op) {
      case Op::add:
        return Pulled{g, g};
      case Op::sub:
        return Pulled{g, neg(g)};
      case Op::mul:
        return Pulled{mul(g, b), mul(g, a)};
      case Op::div:
        return Pulled{div(g, b), neg(div(mul(g, a), mul(b, b)))};
      case Op::pow:
        return Pulled{mul(mul(g, b), binary(Op::pow, a, binary(Op::sub, b, number(1, b)))),
                      mul(mul(g, result), unary(Op::log, a))};
      case Op::maximum:
        return Pulled{chosen(a, b, Op::lt), chosen(b, a, Op::lt)};
      case Op::minimum:
        return Pulled{chosen(a, b, Op::gt), chosen(b, a, Op::gt)};
      default:
        throw Invalid("no gradient");
    }
  });
}

Ref where(const Ref& condition, const Ref& left, const Ref& right) {
  const DType dtype = promoted(left->value, right->value);
  const Ref a = cast(left, dtype), b = cast(right, dtype);
  return recorded(where(condition->value, a->value, b->value), {condition, a, b},
                  [c = condition->value](const Array& g) {
                    return Pulled{std::nullopt, where(c, g, number(0, g)),
                                  where(c, number(0, g), g)};
                  });
}

Ref reshape(const Ref& x, const Dims& dims) {
  return recorded(reshape(x->value, dims), {x},
                  [from = x->value.dims](const Array& g) { return Pulled{reshape(g, from)}; });
}

Ref permute(const Ref& x, const Dims& order) {
  Dims inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return recorded(permute(x->value, order), {x},
                  [inverse](const Array& g) { return Pulled{permute(g, inverse)}; });
}

Ref expand(const Ref& x, const Dims& dims) {
  return recorded(expand(x->value, dims), {x}, [](const Array& g) { return Pulled{g}; });
}

Ref narrow(const Ref& x, int axis, std::int64_t start, std::int64_t length) {
  return recorded(narrow(x->value, axis, start, length), {x},
                  [from = x->value.dims, axis, start, length](const Array& g) {
                    Dims before(from.size(), 0), after(from.size(), 0);
                    const std::size_t at = static_cast<std::size_t>(axis);
                    before[at] = start;
                    after[at] = from[at] - start - length;
                    return Pulled{pad(g, before, after, 0)};
                  });
}

Ref pad(const Ref& x, const Dims& before, const Dims& after, double value) {
  return recorded(pad(x->value, before, after, value), {x},
                  [from = x->value.dims, before](const Array& g) {
                    Array result = g;
                    for (std::size_t i = 0; i < from.size(); ++i)
                      result = narrow(result, static_cast<int>(i), before[i], from[i]);
                    return Pulled{result};
                  });
}

Ref sum(const Ref& x, const Dims& axes, bool keepdim) {
  const DType dtype = is_floating(x->value.dtype) ? x->value.dtype : DType::i64;
  const Ref source = cast(x, dtype);
  return recorded(sum(source->value, axes, keepdim), {source},
                  [x = source->value, axes](const Array& g) { return Pulled{spread(g, x, axes)}; });
}

Ref mean(const Ref& x, const Dims& axes, bool keepdim) {
  if (!is_floating(x->value.dtype)) throw Invalid("mean of integers");
  return recorded(mean(x->value, axes, keepdim), {x}, [x = x->value, axes](const Array& g) {
    std::int64_t count = 1;
    for (const std::int64_t axis : axes) count *= x.dims[static_cast<std::size_t>(axis)];
    return Pulled{spread(div(g, number(static_cast<double>(count), g)), x, axes)};
  });
}

Ref softmax(const Ref& x, int axis) {
  if (!is_floating(x->value.dtype)) throw Invalid("softmax of integers");
  Array y = softmax(x->value, axis);
  return recorded(y, {x}, [y, axis](const Array& g) {
    const Array gy = mul(g, y);
    return Pulled{sub(gy, mul(y, sum(gy, {axis}, true)))};
  });
}

Ref log_softmax(const Ref& x, int axis) {
  if (!is_floating(x->value.dtype)) throw Invalid("log_softmax of integers");
  Array y = log_softmax(x->value, axis);
  return recorded(y, {x}, [y, axis](const Array& g) {
    return Pulled{sub(g, mul(unary(Op::exp, y), sum(g, {axis}, true)))};
  });
}

Ref matmul(const Ref& first, const Ref& second) {
  const DType dtype = promoted(first->value.dtype, second->value.dtype);
  if (dtype == DType::boolean) throw Invalid("matmul of bools");
  Ref a = cast(first, dtype), b = cast(second, dtype);
  const bool row = a->value.rank() == 1, column = b->value.rank() == 1;
  if (a->value.rank() == 0 || b->value.rank() == 0) throw Invalid("matmul of a number");
  if (row) a = reshape(a, {1, a->value.dims[0]});
  if (column) b = reshape(b, {b->value.dims[0], 1});
  Ref y =
      recorded(matmul(a->value, b->value), {a, b}, [x = a->value, w = b->value](const Array& g) {
        return Pulled{matmul(g, transposed(w)), matmul(transposed(x), g)};
      });
  Dims dims = y->value.dims;
  if (row) dims.erase(dims.end() - 2);
  if (column) dims.pop_back();
  return row || column ? reshape(y, dims) : y;
}

Ref linear(const Ref& x, const Ref& weight, const Ref& bias) {
  const DType dtype = x->value.dtype, inner = inner_of(dtype);
  if (!is_floating(dtype) || weight->value.dtype != dtype || weight->value.rank() != 2 ||
      (bias && bias->value.dtype != dtype) || x->value.rank() == 0) {
    throw Invalid("linear does not fit");
  }
  const std::int64_t in = weight->value.dims[1], out = weight->value.dims[0];
  if (x->value.dims.back() != in || (bias && bias->value.dims != Dims{out}))
    throw Invalid("linear does not fit");
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < x->value.dims.size(); ++i) rows *= x->value.dims[i];
  const Array flat = reshape(x->value, {rows, in});
  Array y = matmul(cast(flat, inner), transposed(cast(weight->value, inner)));
  if (bias) y = add(y, cast(bias->value, inner));
  Dims dims = x->value.dims;
  dims.back() = out;
  return recorded(
      reshape(cast(y, dtype), dims), {x, weight, bias},
      [flat, w = weight->value, from = x->value.dims, rows, out](const Array& gradient) {
        const Array g = reshape(gradient, {rows, out});
        return Pulled{reshape(matmul(g, w), from), matmul(transposed(g), flat), g};
      });
}

Ref embedding(const Ref& table, const Ref& ids) {
  if (!is_integral(ids->value.dtype) || ids->value.dtype == DType::boolean)
    throw Invalid("embedding without integers");
  return recorded(gather(table->value, ids->value), {table, ids},
                  [ids = ids->value, dims = table->value.dims](const Array& g) {
                    return Pulled{scatter(g, ids, dims), std::nullopt};
                  });
}

Ref layer_norm(const Ref& x, int axes, const Ref& weight, const Ref& bias, double eps) {
  const DType dtype = x->value.dtype, inner = inner_of(dtype);
  const int rank = x->value.rank();
  if (!is_floating(dtype) || axes < 1 || axes > rank) throw Invalid("layer_norm does not fit");
  const Dims normalized(x->value.dims.end() - axes, x->value.dims.end());
  for (const Ref& p : {weight, bias}) {
    if (p && (p->value.dims != normalized || p->value.dtype != dtype))
      throw Invalid("layer_norm does not fit");
  }
  Dims last(static_cast<std::size_t>(axes));
  std::iota(last.begin(), last.end(), rank - axes);
  const Array wide = cast(x->value, inner);
  const Array average = mean(wide, last, true), d = sub(wide, average);
  const Array r =
      unary(Op::rsqrt, add(mean(mul(d, d), last, true), cast(filled({}, eps, dtype), inner)));
  Array y = mul(d, r);
  if (weight) y = mul(y, cast(weight->value, inner));
  if (bias) y = add(y, cast(bias->value, inner));
  const std::optional<Array> w = weight ? std::optional(weight->value) : std::nullopt;
  return recorded(
      cast(y, dtype), {x, weight, bias}, [x = x->value, average, r, w, last](const Array& g) {
        const Array h = mul(sub(x, average), r);
        const Array gw = w ? mul(g, *w) : g;
        std::int64_t count = 1;
        for (const std::int64_t axis : last) count *= x.dims[static_cast<std::size_t>(axis)];
        const auto average_of = [&](const Array& v) {
          return div(sum(v, last, true), number(static_cast<double>(count), v));
        };
        return Pulled{mul(sub(sub(gw, average_of(gw)), mul(h, average_of(mul(gw, h)))), r),
                      mul(g, h), g};
      });
}

Ref dropout(const Ref& x, const Array& uniform, double p) {
  const DType dtype = x->value.dtype;
  if (!is_floating(dtype)) throw Invalid("dropout of integers");
  const double rate = rounded_to(p, DType::f32);
  const Array one = filled({}, 1, DType::f32);
  const Array scale = cast(div(one, sub(one, filled({}, rate, DType::f32))), inner_of(dtype));
  const auto masked = [uniform, rate, scale, dtype](const Array& v) {
    Array result = cast(mul(cast(v, inner_of(dtype)), scale), dtype);
    for (std::size_t i = 0; i < result.at.size(); ++i) {
      if (uniform.at[i].v < rate) result.at[i] = {0, 0};
    }
    return result;
  };
  return recorded(masked(x->value), {x}, [masked](const Array& g) { return Pulled{masked(g)}; });
}

namespace {

constexpr int kNone = 0, kMean = 1;  // values of Reduction; 2 is the sum

Array reduced(const Array& losses, int reduction) {
  if (reduction == kNone) return losses;
  return reduction == kMean ? mean(losses, all_axes(losses), false)
                            : sum(losses, all_axes(losses), false);
}
Array scaled(const Array& g, int reduction, std::int64_t n, double factor) {
  if (reduction == kMean) factor /= static_cast<double>(n);
  return factor == 1 ? g : mul(g, factor);
}

}  // namespace

Ref mse_loss(const Ref& input, const Ref& other, int reduction) {
  const DType dtype = input->value.dtype, inner = inner_of(dtype);
  if (!is_floating(dtype) || input->value.dims != other->value.dims)
    throw Invalid("mse_loss does not fit");
  const Ref target = cast(other, dtype);
  const Array d = sub(cast(input->value, inner), cast(target->value, inner));
  return recorded(cast(reduced(mul(d, d), reduction), dtype), {input, target},
                  [a = input->value, b = target->value, reduction](const Array& g) {
                    const Array d = mul(sub(a, b), scaled(g, reduction, a.numel(), 2));
                    return Pulled{d, neg(d)};
                  });
}

Ref cross_entropy(const Ref& logits, const Ref& labels, int reduction) {
  const DType dtype = logits->value.dtype, inner = inner_of(dtype);
  const DType ids = labels->value.dtype;
  if (!is_floating(dtype) || logits->value.rank() != 2 || !is_integral(ids) ||
      ids == DType::boolean || labels->value.dims != Dims{logits->value.dims[0]} ||
      logits->value.dims[1] == 0) {
    throw Invalid("cross_entropy does not fit");
  }
  const std::int64_t n = logits->value.dims[0], classes = logits->value.dims[1];
  const Array x = cast(logits->value, inner);
  const Array top = max(x, {1}, true);
  const Array log_sum = add(unary(Op::log, sum(unary(Op::exp, sub(x, top)), {1}, true)), top);
  Array picked({n}, inner), hot({n, classes}, DType::boolean);
  for (std::int64_t i = 0; i < n; ++i) {
    const Num label = labels->value.at[static_cast<std::size_t>(i)];
    if (label.e > 0 || label.v < 0 || label.v >= static_cast<double>(classes))
      throw Invalid("a label is out of range or not known");
    const std::size_t at =
        static_cast<std::size_t>(i * classes) + static_cast<std::size_t>(label.v);
    picked.at[static_cast<std::size_t>(i)] = x.at[at];
    hot.at[at].v = 1;
  }
  const Array losses = sub(reshape(log_sum, {n}), picked);
  return recorded(cast(reduced(losses, reduction), dtype), {logits, labels},
                  [x = logits->value, log_sum, hot, n, reduction](const Array& gradient) {
                    Array g = scaled(gradient, reduction, n, 1);
                    if (g.rank() == 1) g = reshape(g, {n, 1});
                    const Array p = unary(Op::exp, sub(x, log_sum));
                    return Pulled{mul(where(hot, add(p, -1), p), g), std::nullopt};
                  });
}

}  // namespace volta::random_graph
