// The gradient of batch norm: one node that uses the saved values, or, if gradients of gradients
// are required, tensor operations.
#include <vector>

#include "graph/autograd/vjp.h"
#include "graph/record/apply.h"
#include "graph/record/gradient_rules.h"
#include "volta/ops.h"

namespace volta::graph::vjp {
namespace {

// Inputs of batch_norm; a bias is the last one.
constexpr int kX = 0, kMean = 1, kSpread = 2, kEps = 3, kWeight = 4;

struct Sides {
  bool by_batch, weighted;
  bool x, weight, bias;  // whether a gradient flows to each of them
  int bias_input;

  explicit Sides(const Vjp& v)
      : by_batch(v.attr(0) != 0),
        weighted(v.attr(1) != 0),
        x(v.needs(kX)),
        weight(weighted && v.needs(kWeight)),
        bias(v.attr(2) != 0 && v.needs(v.inputs() - 1)),
        bias_input(v.inputs() - 1) {}
};

void from_saved(Vjp& v, const Sides& sides) {
  std::vector<Tensor> inputs{v.gradient()};
  for (const int i : {kX, kMean, kSpread, kEps}) inputs.push_back(v.input(i));
  if (sides.weighted) inputs.push_back(v.input(kWeight));
  std::vector<int> those;
  if (sides.x) those.push_back(kX);
  if (sides.weight) those.push_back(kWeight);
  if (sides.bias) those.push_back(sides.bias_input);
  if (those.empty()) return;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (const int i : those) {
    shapes.push_back(v.shape(i));
    dtypes.push_back(v.dtype(i));
  }
  const std::int64_t wanted = sides.x | sides.weight << 1 | sides.bias << 2;
  const std::int64_t attrs[] = {sides.by_batch, sides.weighted, wanted};
  std::vector<Tensor> results =
      apply_multi(OpId::batch_norm_grad, inputs, attrs, shapes, dtypes, v.place());
  for (std::size_t n = 0; n < those.size(); ++n) v.give(those[n], std::move(results[n]));
}

void with_history(Vjp& v, const Sides& sides) {
  v.widen();
  const Tensor &g = v.gradient(), &x = v.input(kX);
  const SourceLocation place = v.place();
  std::vector<std::int64_t> others, sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[1] = x.shape()[1];
  double count = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == 1) continue;
    others.push_back(i);
    count *= static_cast<double>(x.shape()[i]);
  }
  const auto beside = [&](const Tensor& t) { return reshape_to(t, Shape(sizes), place); };
  const auto sum_of = [&](const Tensor& t) { return sum_axes(t, others, false, place); };
  const auto mean_of = [&](const Tensor& t) { return sum_axes(t, others, true, place) / count; };
  const Tensor mean = sides.by_batch ? mean_of(x) : beside(v.input(kMean));
  const Tensor d = x - mean;
  const Tensor variance = sides.by_batch ? mean_of(d.square()) : beside(v.input(kSpread));
  const Tensor r = (variance + v.input(kEps)).rsqrt(), h = d * r;
  if (sides.x) {
    const Tensor k = sides.weighted ? g * beside(v.input(kWeight)) : g;
    v.give(kX, (sides.by_batch ? k - mean_of(k) - h * mean_of(k * h) : k) * r);
  }
  if (sides.weight) v.give(kWeight, sum_of(g * h));
  if (sides.bias) v.give(sides.bias_input, sum_of(g));
}

}  // namespace

void batch_norm(Vjp& v) {
  const Sides sides(v);
  v.with_history() ? with_history(v, sides) : from_saved(v, sides);
}

}  // namespace volta::graph::vjp
