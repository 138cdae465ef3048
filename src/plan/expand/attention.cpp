// Attention in primitives: scores, their softmax by rows, and products with the values. Long
// sequences are processed in blocks of queries, so that the scores of all queries are never in
// memory at once.
#include <algorithm>
#include <limits>
#include <vector>

#include "graph/attributes/attention.h"
#include "plan/calls/attention.h"
#include "plan/calls/matmul.h"
#include "plan/expand/expand.h"
#include "plan/expand/rules.h"

namespace volta::graph::expand {
namespace {

using kernel::ReduceOp;
using kernel::ScalarOp;
using plan::Expr;
using plan::Extent;
using plan::Lowering;
using plan::Shape;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kRowsAttr = 4;  // the attribute AttentionSpec::rows
constexpr std::int64_t kRow = 3;      // the axis of [batch, heads, queries, keys] along a row

// The smaller of two sizes; a plan is valid only for sizes for which it is the same one.
Extent least(Extent a, Extent b) { return b < a ? b : a; }

// A block: some queries of every head, and the keys that they may see.
struct Block {
  Extent first, rows, keys;
};

class Attention {
 public:
  explicit Attention(Lowering& lowering)
      : l(lowering),
        spec(AttentionSpec::of(l.attrs_but(kRowsAttr))),
        rows_at_once(l.open_attrs()[kRowsAttr]),
        q(l.stored_in(0)),
        k(l.stored_in(1)),
        v(l.stored_in(2)),
        sizes(q.shape(), k.shape(), v.shape()),
        scale(l.in(AttentionSpec::kScale)) {}

  std::vector<Block> blocks() const {
    std::vector<Block> all;
    for (Extent first = 0; first < sizes.t; first += rows_at_once) {
      const Extent rows = least(rows_at_once, sizes.t - first);
      all.push_back({first, rows, spec.causal ? least(sizes.s, first + rows) : sizes.s});
    }
    return all;
  }

  // The block's rows of x [batch, heads, T, n], as one matrix for all heads that share keys.
  Expr queries(Expr x, const Block& block) const {
    const Extent start[] = {0, 0, block.first, 0}, n = x.shape()[3];
    const Expr rows = l.shrink(x, start, x.shape().with(2, block.rows));
    return l.reshape(rows, {sizes.matrices(), sizes.group() * block.rows, n});
  }
  // The keys or values [batch, kv_heads, S, n] that the block sees.
  Expr seen(Expr x, const Block& block) const {
    const Extent start[] = {0, 0, 0, 0}, n = x.shape()[3];
    const Expr keys = l.shrink(x, start, x.shape().with(2, block.keys));
    return l.reshape(keys, {sizes.matrices(), block.keys, n});
  }
  // Reshapes matrices to rows of heads, and back.
  Expr by_head(Expr matrices, const Block& block) const {
    return l.reshape(matrices, {sizes.batch, sizes.heads, block.rows, matrices.shape()[2]});
  }
  Expr by_matrix(Expr heads, const Block& block) const {
    return l.reshape(heads, {sizes.matrices(), sizes.group() * block.rows, heads.shape()[3]});
  }
  Expr product(Expr a, Expr b, bool transpose_a, bool transpose_b) const {
    return plan::matmul(l, widened(l, a), widened(l, b), transpose_a, transpose_b, spec.tf32);
  }

  // The scores of a block, [batch, heads, rows, keys], which are -inf where a query does not see a
  // key.
  Expr scores(const Block& block) const {
    Expr x = by_head(product(queries(q, block), seen(k, block), false, true), block) * scale;
    const Expr nothing = literal(l, -kInfinity, x);
    if (spec.masked) {
      const Expr mask = part_of(l.in(AttentionSpec::kMask), block);
      x = mask.dtype() == DType::boolean ? l.where(mask, x, nothing) : x + mask;
    }
    if (spec.causal && block.keys > block.first + 1) {
      const Expr row = l.iota(x.shape(), 2) + l.size(block.first, DType::i64);
      x = l.where(l.binary(ScalarOp::le, l.iota(x.shape(), 3), row), x, nothing);
    }
    return x;
  }

  // Applies dropout, with the random numbers that belong to the positions in the whole matrix.
  Expr dropped(Expr x, const Block& block) const {
    if (!spec.dropped) return x;
    const Expr p = l.in(spec.seed() + 2), one = l.constant(1, DType::f32);
    const Expr u = l.philox(l.in(spec.seed()), l.in(spec.seed() + 1), sizes.scores(), DType::f32);
    const Expr keep = l.binary(ScalarOp::le, p, part_of(u, block));
    return l.where(keep, x * l.cast(one / (one - p), x.dtype()), literal(l, 0, x));
  }

  // The weights as an operand of a product. They are halves if the device multiplies halves;
  // otherwise they are not rounded, because the product would convert them to f32 again.
  Expr operand(Expr x, const Block& block) const {
    return by_matrix(l.multiplies_halves(q.dtype()) ? l.cast(x, q.dtype()) : x, block);
  }

  // The block's part of an array that broadcasts to [batch, heads, T, S].
  Expr part_of(Expr x, const Block& block) const {
    const Shape shape = x.shape();
    const Extent start[] = {0, 0, shape[2] == 1 ? Extent(0) : block.first, 0};
    return l.shrink(
        x, start, shape.with(2, least(shape[2], block.rows)).with(3, least(shape[3], block.keys)));
  }
  Expr rows_of(Expr x, const Block& block) const {
    std::vector<Extent> start(static_cast<std::size_t>(x.shape().rank()), 0);
    start[2] = block.first;
    return l.shrink(x, start, x.shape().with(2, block.rows));
  }

  // Returns the results of one call for the whole operation; none if the device has none for it.
  std::vector<Expr> as_call(bool gradient, std::vector<Expr> operands) const {
    if (spec.dropped || sizes.d != sizes.dv || size_of(q.dtype()) != 2) return {};
    plan::AttentionStep step;
    step.gradient = gradient;
    step.deterministic = spec.deterministic;
    step.causal = spec.causal;
    step.scale = spec.scale;
    step.size = sizes.d.hint();
    if (spec.masked) {
      operands.push_back(l.stored_in(AttentionSpec::kMask));
      step.masked = true;
      step.mask = operands.back().dtype();
    }
    const plan::AttentionExtents extents{sizes.batch, sizes.heads, sizes.kv_heads, sizes.t,
                                         sizes.s};
    std::vector<Expr> results = plan::attention(l, step, extents, operands);
    if (!results.empty()) sizes.d.fixed();
    return results;
  }
  // Permutes [batch, length, heads, size] to [batch, heads, length, size].
  Expr heads_second(Expr x) const {
    const std::int64_t order[] = {0, 2, 1, 3};
    return l.permute(x, order);
  }

  Expr filled(double number, const Shape& shape) const {
    return l.expand(l.constant(number, scale.dtype()), shape);
  }

  Lowering& l;
  AttentionSpec spec;
  Extent rows_at_once;
  Expr q, k, v;
  AttentionSizesOf<Shape> sizes;
  Expr scale;
};

// A sum with one term per block, of which only a few are in memory at once.
class Sum {
 public:
  explicit Sum(Lowering& lowering) : l(lowering) {}
  // Adds a block's term [matrices, keys, n], which belongs to the first of all keys.
  void add(Expr term, Extent all) {
    constexpr int kTermsAtOnce = 4;
    const Extent before[] = {0, 0, 0};
    term = l.pad(term, before, term.shape().with(1, all), 0);
    total_ = terms_ == 0 ? term : total_ + term;
    if (++terms_ % kTermsAtOnce == 0) l.stored(total_);
  }
  Expr total(const Shape& shape, DType dtype) const {
    return l.reshape(l.cast(total_, dtype), shape);
  }

 private:
  Lowering& l;
  Expr total_;
  int terms_ = 0;
};

// The gradient of a mask: the gradients of all scores, summed where the mask was broadcast.
class MaskGradient {
 public:
  MaskGradient(Lowering& lowering, const Shape& mask) : l(lowering), mask_(mask) {}
  void add(Expr scores, Extent all_keys) {
    std::vector<std::int64_t> axes;
    for (int i = 0; i < 4; ++i) {
      if (mask_[i] == 1 && scores.shape()[i] != 1) axes.push_back(i);
    }
    const Extent before[] = {0, 0, 0, 0};
    Expr part = l.reduce(ReduceOp::Sum, scores, axes, true);
    if (mask_[3] != 1) part = l.pad(part, before, part.shape().with(3, all_keys), 0);
    if (mask_[2] == 1 && !parts_.empty()) {
      parts_.front() = l.stored(parts_.front() + part);
    } else {
      parts_.push_back(part);
    }
  }
  Expr total() const { return joined(l, parts_, 2); }

 private:
  Lowering& l;
  Shape mask_;
  std::vector<Expr> parts_;
};

}  // namespace

// The results are the output and, for the gradient, the logarithm of each row's sum of
// exponentials: the weights are exp(score - logarithm). The logarithm is +inf if a query sees no
// key, so that all weights are 0.
void attention(Lowering& l) {
  const Attention a(l);
  const AttentionSizesOf<Shape>& s = a.sizes;
  if (l.shape().numel() == 0 || s.s == 0) {
    l.out(0, a.filled(0, l.shape()));
    l.out(1, a.filled(kInfinity, {s.batch, s.heads, s.t}));
    return;
  }
  if (const std::vector<Expr> results = a.as_call(false, {a.q, a.k, a.v}); !results.empty()) {
    l.out(0, a.heads_second(results[0]));
    l.out(1, results[1]);
    return;
  }
  std::vector<Expr> outputs, logs;
  const std::vector<Block> blocks = a.blocks();
  for (const Block& block : blocks) {
    if (blocks.size() > 1) l.begin_phase();
    const Expr x = a.scores(block), zero = literal(l, 0, x);
    const Expr largest = l.reduce(ReduceOp::Max, x, {&kRow, 1}, true);
    const Expr unseen = l.binary(ScalarOp::eq, largest, literal(l, -kInfinity, x));
    const Expr top = l.where(unseen, zero, largest);
    const Expr e = l.unary(ScalarOp::exp, x - top);
    const Expr sum = l.reduce(ReduceOp::Sum, e, {&kRow, 1}, true);
    const Expr p = e * l.where(unseen, zero, literal(l, 1, x) / sum);
    const Expr log = l.where(unseen, literal(l, kInfinity, x), top + l.unary(ScalarOp::log, sum));
    const Expr y =
        a.product(a.operand(a.dropped(p, block), block), a.seen(a.v, block), false, false);
    outputs.push_back(a.by_head(l.cast(y, l.dtype()), block));
    logs.push_back(l.reshape(log, {s.batch, s.heads, block.rows}));
  }
  l.end_phases();
  l.out(0, joined(l, outputs, 2));
  l.out(1, joined(l, logs, 2));
}

// The inputs are those of attention, its results, and the gradient of the output.
void attention_grad(Lowering& l) {
  const Attention a(l);
  const AttentionSizesOf<Shape>& s = a.sizes;
  const int first = a.spec.inputs();
  const std::int64_t wanted = l.open_attrs().back();
  const auto wants = [&](int input) { return (wanted >> input & 1) != 0; };
  const Expr logs = l.reshape(l.in(first + 1), {s.batch, s.heads, s.t, 1});
  const Expr g = l.stored_in(first + 2);
  const bool masked = wants(AttentionSpec::kMask);
  const Shape mask = masked ? l.in(AttentionSpec::kMask).shape() : Shape{};

  Expr dq, dk, dv, dmask;
  if (g.shape().numel() == 0 || s.s == 0) {
    dq = a.filled(0, a.q.shape());
    dk = a.filled(0, a.k.shape());
    dv = a.filled(0, a.v.shape());
    if (masked) dmask = a.filled(0, mask);
  } else if (const std::vector<Expr> results =
                 masked ? std::vector<Expr>()
                        : a.as_call(true, {a.q, a.k, a.v, l.stored_in(first), g, l.in(first + 1)});
             !results.empty()) {
    dq = a.heads_second(results[0]);
    dk = a.heads_second(results[1]);
    dv = a.heads_second(results[2]);
  } else {
    // The softmax gradient subtracts from each gain the sum of weight times gain over the row. That
    // equals output times gradient, but if the output was rounded to halves, the sum is computed
    // directly.
    const bool rounded = size_of(a.q.dtype()) == 2;
    Expr by_output;
    if (!rounded) {
      by_output = l.stored(l.reduce(ReduceOp::Sum, l.in(first)*l.in(first + 2), {&kRow, 1}, true));
    }
    std::vector<Expr> of_queries;
    Sum of_keys(l), of_values(l);
    MaskGradient of_mask(l, mask);
    const std::vector<Block> blocks = a.blocks();
    for (const Block& block : blocks) {
      if (blocks.size() > 1) l.begin_phase();
      const Expr rows = a.queries(g, block);
      const Expr p = l.unary(ScalarOp::exp, a.scores(block) - a.rows_of(logs, block));
      if (wants(2)) {
        of_values.add(a.product(a.operand(a.dropped(p, block), block), rows, true, false), s.s);
      }
      if (!wants(0) && !wants(1) && !masked) continue;
      const Expr gain =
          a.dropped(a.by_head(a.product(rows, a.seen(a.v, block), false, true), block), block);
      const Expr together = rounded ? l.reduce(ReduceOp::Sum, p * gain, {&kRow, 1}, true)
                                    : a.rows_of(by_output, block);
      const Expr ds = p * (gain - together);
      if (masked) of_mask.add(ds, s.s);
      const Expr scaled = a.operand(ds * a.scale, block);
      if (wants(0)) {
        const Expr part = a.product(scaled, a.seen(a.k, block), false, false);
        of_queries.push_back(a.by_head(l.cast(part, a.q.dtype()), block));
      }
      if (wants(1)) of_keys.add(a.product(scaled, a.queries(a.q, block), true, false), s.s);
    }
    l.end_phases();
    if (wants(0)) dq = joined(l, of_queries, 2);
    if (wants(1)) dk = of_keys.total(a.k.shape(), a.k.dtype());
    if (wants(2)) dv = of_values.total(a.v.shape(), a.v.dtype());
    if (masked) dmask = of_mask.total();
  }
  int number = 0;
  if (wants(0)) l.out(number++, dq);
  if (wants(1)) l.out(number++, dk);
  if (wants(2)) l.out(number++, dv);
  if (masked) l.out(number++, dmask);
}

}  // namespace volta::graph::expand
