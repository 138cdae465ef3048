// Operations for neural networks: embedding, normalisation, dropout.
#include <fmt/format.h>

#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/generator.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::apply_multi;
using graph::OpId;

Tensor embedding(const Tensor& weight, const Tensor& ids, SourceLocation place) {
  graph::require_defined("embedding", weight, "the weight");
  graph::require_defined("embedding", ids, "ids");
  if (weight.rank() != 2) {
    throw ShapeError(fmt::format("embedding: weight {} needs 2 axes", to_string(weight.shape())));
  }
  if (!is_integral(ids.dtype()) || ids.dtype() == DType::boolean) {
    graph::throw_dtype("embedding", ids.dtype(), "integer ids");
  }
  if (weight.shape()[0] == 0 && ids.numel() > 0) {
    throw ShapeError(fmt::format("embedding: weight {} has no rows", to_string(weight.shape())));
  }
  Tensor inputs[2] = {weight, ids.dtype() == DType::u8 ? ids.to(DType::i64, place) : ids};
  graph::agree_on_device("embedding", inputs, place);
  if (ids.rank() >= kMaxRank) {
    throw ShapeError(fmt::format("embedding: ids {} have too many axes", to_string(ids.shape())));
  }
  return apply(OpId::gather, inputs, {}, ids.shape().inserted(ids.rank(), weight.shape()[1]),
               weight.dtype(), place);
}

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight,
                  const Tensor& bias, double eps, SourceLocation place) {
  graph::require_floating("layer_norm", x);
  if (const auto wanted = graph::autocast_dtype(OpId::layer_norm, {&x, &weight, &bias})) {
    return layer_norm(graph::autocast(x, *wanted, place), normalized,
                      graph::autocast(weight, *wanted, place),
                      graph::autocast(bias, *wanted, place), eps, place);
  }
  const int axes = normalized.rank();
  bool fits = axes > 0 && axes <= x.rank();
  for (int i = 0; fits && i < axes; ++i) fits = normalized[i] == x.shape()[x.rank() - axes + i];
  if (!fits) {
    throw ShapeError(fmt::format("layer_norm: {} are not the last sizes of {}",
                                 to_string(normalized), to_string(x.shape())));
  }
  for (const Tensor* p : {&weight, &bias}) {
    if (!p->defined()) continue;
    const char* which = p == &weight ? "weight" : "bias";
    if (p->shape() != normalized) {
      throw ShapeError(fmt::format("layer_norm: {} {} is not {}", which, to_string(p->shape()),
                                   to_string(normalized)));
    }
    if (p->dtype() != x.dtype()) {
      throw DTypeError(fmt::format("layer_norm: input is {}, {} is {}", name_of(x.dtype()), which,
                                   name_of(p->dtype())));
    }
  }
  if (bias.defined() && !weight.defined()) throw ArgumentError("layer_norm: bias without weight");
  if (!(eps >= 0)) throw ArgumentError(fmt::format("layer_norm: eps {} is negative", eps));
  std::vector<Tensor> inputs{x, graph::number(eps, x.dtype(), x.device())};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  graph::agree_on_device("layer_norm", inputs, place);
  std::vector<std::int64_t> rows(x.shape().begin(), x.shape().end());
  for (int i = x.rank() - axes; i < x.rank(); ++i) rows[static_cast<std::size_t>(i)] = 1;
  const Shape shapes[3] = {x.shape(), Shape(rows), Shape(rows)};
  const DType inner =
      x.dtype() == DType::f64 ? DType::f64 : DType::f32;  // statistics of f16 and bf16 are f32
  const DType dtypes[3] = {x.dtype(), inner, inner};
  const std::int64_t attrs[1] = {axes};
  return apply_multi(OpId::layer_norm, inputs, attrs, shapes, dtypes, place)[0];
}

Tensor dropout(const Tensor& x, double p, bool training, SourceLocation place) {
  return dropout(x, p, training, Generator(), place);
}

Tensor dropout(const Tensor& x, double p, bool training, const Generator& generator,
               SourceLocation place) {
  graph::require_floating("dropout", x);
  if (!(p >= 0 && p <= 1)) throw ArgumentError(fmt::format("dropout: p = {} is not in [0, 1]", p));
  if (!training || p == 0) return x;
  if (p == 1) return x * graph::filled(x.shape(), 0, x.dtype(), x.device());
  const GeneratorState random = graph::take_random(x.numel(), generator);
  const auto word = [&](std::uint64_t value) {
    return graph::number(static_cast<std::int64_t>(value), DType::i64, x.device());
  };
  const Tensor inputs[4] = {x, word(random.seed), word(random.offset),
                            graph::number(p, DType::f32, x.device())};
  return apply(OpId::dropout, inputs, {}, x.shape(), x.dtype(), place);
}

}  // namespace volta
