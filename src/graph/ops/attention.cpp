// Attention: checks the arguments, brings operands of any rank to four axes, and records one node.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/thread_owned.h"
#include "graph/attributes/attention.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/generator.h"
#include "volta/attention.h"
#include "volta/error.h"
#include "volta/execution.h"

namespace volta {
namespace {

using graph::AttentionSizes;
using graph::AttentionSpec;
using graph::OpId;

constexpr const char* kName = "scaled_dot_product_attention";

std::string shapes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  return fmt::format("{}, {} and {}", to_string(q.shape()), to_string(k.shape()),
                     to_string(v.shape()));
}

// The axes before heads, length and size.
Shape batch_of(const Shape& shape) {
  return Shape(shape.sizes().first(static_cast<std::size_t>(std::max(shape.rank() - 3, 0))));
}
std::int64_t heads_of(const Shape& shape) { return shape.rank() < 3 ? 1 : shape[shape.rank() - 3]; }

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  graph::require_floating(kName, q);
  if (k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    throw DTypeError(fmt::format("{}: q, k and v are {}, {} and {}", kName, name_of(q.dtype()),
                                 name_of(k.dtype()), name_of(v.dtype())));
  }
  const Shape &sq = q.shape(), &sk = k.shape(), &sv = v.shape();
  const auto last = [](const Shape& shape, int from_end) { return shape[shape.rank() - from_end]; };
  if (std::min({sq.rank(), sk.rank(), sv.rank()}) < 2) {
    throw ShapeError(fmt::format("{}: q, k and v need [..., heads, length, size], got {}", kName,
                                 shapes_of(q, k, v)));
  }
  if (last(sq, 1) != last(sk, 1) || last(sq, 1) == 0) {
    throw ShapeError(fmt::format("{}: queries {} and keys {} need one size", kName, to_string(sq),
                                 to_string(sk)));
  }
  if (last(sk, 2) != last(sv, 2)) {
    throw ShapeError(fmt::format("{}: keys {} and values {} differ in number", kName, to_string(sk),
                                 to_string(sv)));
  }
  const std::int64_t heads = heads_of(sq), kv_heads = heads_of(sk);
  if (heads_of(sv) != kv_heads || (kv_heads == 0 ? heads != 0 : heads % kv_heads != 0)) {
    throw ShapeError(
        fmt::format("{}: the heads of q must be a multiple of those of k and v, got {}", kName,
                    shapes_of(q, k, v)));
  }
}

// Reshapes [batch..., heads, length, size] to [batch, heads, length, size], with the batch
// broadcast.
Tensor of_four_axes(const Tensor& x, const Shape& batch, SourceLocation place) {
  const Shape& shape = x.shape();
  const int rank = shape.rank();
  const std::int64_t inner[] = {heads_of(shape), shape[rank - 2], shape[rank - 1]};
  std::vector<std::int64_t> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), std::begin(inner), std::end(inner));
  const Tensor whole = batch_of(shape) == batch ? x : graph::expand_to(x, Shape(sizes), place);
  return graph::reshape_to(whole, {batch.numel(), inner[0], inner[1], inner[2]}, place);
}

// The mask as [batch or 1, heads or 1, T or 1, S or 1].
Tensor mask_of_four_axes(const Tensor& mask, const Shape& batch, const Shape& wanted,
                         SourceLocation place) {
  const Shape& shape = mask.shape();
  const int missing = wanted.rank() - shape.rank();
  bool fits = missing >= 0;
  std::vector<std::int64_t> sizes(wanted.begin(), wanted.end());
  for (int i = 0; fits && i < wanted.rank(); ++i) {
    const std::int64_t size = i < missing ? 1 : shape[i - missing];
    fits = size == 1 || size == wanted[i];
    sizes[static_cast<std::size_t>(i)] = size;
  }
  if (!fits) {
    throw ShapeError(fmt::format("{}: mask {} does not broadcast to the scores {}", kName,
                                 to_string(shape), to_string(wanted)));
  }
  const auto axes = static_cast<std::ptrdiff_t>(batch.rank());
  const auto inner = sizes.begin() + axes;
  const bool shared = std::all_of(sizes.begin(), inner, [](std::int64_t n) { return n == 1; });
  Tensor whole = mask;
  if (!shared && !std::equal(sizes.begin(), inner, batch.begin())) {
    std::copy(batch.begin(), batch.end(), sizes.begin());
    whole = graph::expand_to(mask, Shape(sizes), place);
  }
  const std::int64_t first = shared ? 1 : batch.numel();
  if (wanted.rank() < 3) return graph::reshape_to(whole, {1, 1, inner[0], inner[1]}, place);
  return graph::reshape_to(whole, {first, inner[0], inner[1], inner[2]}, place);
}

void check_mask(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean && mask.dtype() != dtype) {
    throw DTypeError(fmt::format("{}: the mask must be bool or {} as q, got {}", kName,
                                 name_of(dtype), name_of(mask.dtype())));
  }
}

// The number of queries whose scores fit the memory limit; all parts of the queries have about this
// size.
std::int64_t rows_at_once(const AttentionSizes& s, DType inner) {
  const graph::AttentionLimits& limits = graph::attention_limits();
  const std::int64_t each = std::max<std::int64_t>(
      s.batch * s.heads * s.s * static_cast<std::int64_t>(size_of(inner)), 1);
  const std::int64_t most = std::max<std::int64_t>({limits.bytes / each, limits.least_rows, 1});
  const std::int64_t parts = std::max<std::int64_t>((s.t + most - 1) / most, 1);
  return (s.t + parts - 1) / parts;
}

}  // namespace

graph::AttentionLimits& graph::attention_limits() { return ThreadOwned<AttentionLimits>::get(); }

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    AttentionOptions options, SourceLocation place) {
  graph::require_defined(kName, q, "q");
  graph::require_defined(kName, k, "k");
  graph::require_defined(kName, v, "v");
  if (const auto wanted = graph::autocast_dtype(OpId::attention, {&q, &k, &v, &options.mask})) {
    const auto cast = [&](const Tensor& x) { return graph::autocast(x, *wanted, place); };
    options.mask = cast(options.mask);
    return scaled_dot_product_attention(cast(q), cast(k), cast(v), std::move(options), place);
  }
  check_operands(q, k, v);
  const DType dtype = q.dtype();
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ArgumentError(fmt::format("{}: dropout = {} is not in [0, 1]", kName, options.dropout));
  }
  if (options.scale && !std::isfinite(*options.scale)) {
    throw ArgumentError(fmt::format("{}: scale = {} is not finite", kName, *options.scale));
  }
  const bool masked = options.mask.defined();
  if (masked) check_mask(options.mask, dtype);
  Tensor operands[4] = {q, k, v, options.mask};
  graph::agree_on_device(kName, {operands, masked ? 4u : 3u}, place);

  const Shape batch =
      broadcast_shapes(kName, broadcast_shapes(kName, batch_of(q.shape()), batch_of(k.shape())),
                       batch_of(v.shape()));
  std::vector<Tensor> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(of_four_axes(operands[i], batch, place));
  const AttentionSizes sizes(inputs[0].shape(), inputs[1].shape(), inputs[2].shape());
  const DType inner = dtype == DType::f64 ? DType::f64 : DType::f32;
  const Device device = inputs[0].device();
  const double scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(sizes.d));
  inputs.push_back(graph::number(scale, inner, device));

  std::vector<std::int64_t> result(batch.begin(), batch.end()), scores = result;
  const int most_axes = std::max({q.rank(), k.rank(), v.rank()});
  if (most_axes > 2) {
    result.push_back(sizes.heads);
    scores.push_back(sizes.heads);
  }
  result.insert(result.end(), {sizes.t, sizes.dv});
  scores.insert(scores.end(), {sizes.t, sizes.s});
  if (masked) inputs.push_back(mask_of_four_axes(operands[3], batch, Shape(scores), place));
  const bool dropped = options.training && options.dropout > 0;
  if (dropped) {
    const GeneratorState random = graph::take_random(sizes.scores().numel(), options.generator);
    for (const std::uint64_t word : {random.seed, random.offset})
      inputs.push_back(graph::number(static_cast<std::int64_t>(word), DType::i64, device));
    inputs.push_back(graph::number(options.dropout, DType::f32, device));
  }
  const AttentionSpec spec{.causal = options.causal,
                           .masked = masked,
                           .dropped = dropped,
                           .tf32 = graph::tf32_now(),
                           .deterministic = execution_options().deterministic,
                           .rows = rows_at_once(sizes, inner),
                           .scale = scale};
  const Shape shapes[2] = {{sizes.batch, sizes.heads, sizes.t, sizes.dv},
                           {sizes.batch, sizes.heads, sizes.t}};
  const DType dtypes[2] = {dtype, inner};
  const Tensor y =
      graph::apply_multi(OpId::attention, inputs, spec.attrs(), shapes, dtypes, place)[0];
  return graph::reshape_to(y, Shape(result), place);
}

}  // namespace volta
