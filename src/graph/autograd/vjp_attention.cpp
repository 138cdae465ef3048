// The gradient of attention: one node that uses the saved values, or, if gradients of gradients are
// required, tensor operations on the whole matrix of scores.
#include <limits>
#include <vector>

#include "graph/attributes/attention.h"
#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/autograd.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void from_saved(Vjp& v, const AttentionSpec& spec) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < v.inputs(); ++i) inputs.push_back(v.input(i));
  inputs.insert(inputs.end(), {v.output(), v.auxiliary(0), v.gradient()});
  std::int64_t wanted = 0;
  std::vector<int> those;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (const int i : {0, 1, 2, AttentionSpec::kMask}) {
    if (i == AttentionSpec::kMask && !spec.masked) continue;
    if (!v.needs(i)) continue;
    wanted |= std::int64_t{1} << i;
    those.push_back(i);
    shapes.push_back(v.shape(i));
    dtypes.push_back(v.dtype(i));
  }
  if (those.empty()) return;
  const auto given = spec.attrs();
  std::vector<std::int64_t> attrs(given.begin(), given.end());
  attrs.push_back(wanted);
  std::vector<Tensor> results =
      apply_multi(OpId::attention_grad, inputs, attrs, shapes, dtypes, v.place());
  for (std::size_t n = 0; n < those.size(); ++n) v.give(those[n], std::move(results[n]));
}

// Rows in which every key is masked are 0, and so are their gradients.
Tensor weights_of(const Tensor& scores, SourceLocation place) {
  if (scores.numel() == 0) return scores;
  Tensor unseen;
  {
    const NoGrad no_grad;
    unseen = volta::max(scores, 3, true, place).eq(-kInfinity);
  }
  const Tensor safe = volta::where(unseen, 0, scores);
  return volta::where(unseen, 0, volta::softmax(safe, 3, place));
}

void with_history(Vjp& v, const AttentionSpec& spec) {
  v.widen();
  const SourceLocation place = v.place();
  const Tensor &q = v.input(0), &k = v.input(1), &values = v.input(2), &scale = v.input(3);
  const AttentionSizes s(q.shape(), k.shape(), values.shape());
  const Shape all = s.scores();
  const auto queries = [&](const Tensor& x) {
    return reshape_to(x, {s.matrices(), s.group() * s.t, x.shape()[3]}, place);
  };
  const auto keys = [&](const Tensor& x) {
    return reshape_to(x, {s.matrices(), s.s, x.shape()[3]}, place);
  };
  const auto multiplied = [&](const Tensor& a, const Tensor& b, bool ta, bool tb) {
    return product(a, b, ta, tb, spec.tf32, place);
  };
  const auto dropped = [&](const Tensor& x) {
    if (!spec.dropped) return x;
    const int seed = spec.seed();
    const Tensor inputs[4] = {x, v.input(seed), v.input(seed + 1), v.input(seed + 2)};
    return apply(OpId::dropout, inputs, {}, x.shape(), x.dtype(), place);
  };
  Tensor scores = reshape_to(multiplied(queries(q), keys(k), false, true), all, place) * scale;
  if (spec.masked) {
    const Tensor& mask = v.input(AttentionSpec::kMask);
    scores =
        mask.dtype() == DType::boolean ? volta::where(mask, scores, -kInfinity) : scores + mask;
  }
  if (spec.causal) {
    const TensorOptions here{.dtype = DType::i64, .device = q.device()};
    const Tensor row = reshape_to(arange(s.t, here, place), {s.t, 1}, place);
    scores = volta::where(arange(s.s, here, place).le(row), scores, -kInfinity);
  }
  const Tensor p = weights_of(scores, place), g = queries(v.gradient());
  if (v.needs(2)) {
    v.give(2, reshape_to(multiplied(queries(dropped(p)), g, true, false), v.shape(2), place));
  }
  const bool masked = spec.masked && v.needs(AttentionSpec::kMask);
  if (!v.needs(0) && !v.needs(1) && !masked) return;
  const Tensor gain = dropped(reshape_to(multiplied(g, keys(values), false, true), all, place));
  const std::int64_t row[] = {3};
  const Tensor ds = p * (gain - sum_axes(p * gain, row, true, place));
  if (masked) v.give(AttentionSpec::kMask, ds);
  const Tensor scaled = queries(ds * scale);
  if (v.needs(0))
    v.give(0, reshape_to(multiplied(scaled, keys(k), false, false), v.shape(0), place));
  if (v.needs(1))
    v.give(1, reshape_to(multiplied(scaled, queries(q), true, false), v.shape(1), place));
}

}  // namespace

void attention(Vjp& v) {
  const AttentionSpec spec = AttentionSpec::of(v.attrs());
  v.with_history() ? with_history(v, spec) : from_saved(v, spec);
}

}  // namespace volta::graph::vjp
