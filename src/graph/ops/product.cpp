// Matrix products: bring the operands to one matrix or a batch of matrices, then record one node.
#include <algorithm>

#include <fmt/format.h>

#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/placing.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/ops.h"

namespace volta {

using graph::apply;
using graph::OpId;

namespace graph {

bool tf32_now() { return execution_options().matmul == Precision::tf32; }

Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, bool tf32,
               SourceLocation place) {
  const Shape &sa = node_of(a)->shape, &sb = node_of(b)->shape;
  const int rank = sa.rank();
  const std::int64_t m = sa[rank - (transpose_a ? 1 : 2)];
  const std::int64_t n = sb[rank - (transpose_b ? 2 : 1)];
  const Shape shape = rank == 3 ? Shape{sa[0], m, n} : Shape{m, n};
  return apply(OpId::matmul, {a, b}, {transpose_a, transpose_b, tf32}, shape, node_of(a)->dtype,
               place);
}

}  // namespace graph

namespace {

Shape leading(const Shape& shape, int kept) {
  return Shape(shape.sizes().first(static_cast<std::size_t>(kept)));
}

Shape joined(const Shape& batch, std::initializer_list<std::int64_t> rest) {
  std::vector<std::int64_t> sizes(batch.begin(), batch.end());
  sizes.insert(sizes.end(), rest);
  return Shape(sizes);
}

[[noreturn]] void throw_no_fit(const Shape& x, const Shape& weight) {
  throw ShapeError(
      fmt::format("linear: input {} does not fit weight {}", to_string(x), to_string(weight)));
}

}  // namespace

Tensor matmul(const Tensor& first, const Tensor& second, SourceLocation place) {
  graph::require_defined("matmul", first, "the left operand");
  graph::require_defined("matmul", second, "the right operand");
  if (const auto wanted = graph::autocast_dtype(OpId::matmul, {&first, &second})) {
    return matmul(graph::autocast(first, *wanted, place), graph::autocast(second, *wanted, place),
                  place);
  }
  Tensor sides[2] = {first, second};
  graph::agree_on_device("matmul", sides, place);
  const DType dtype = promote(first.dtype(), second.dtype());
  for (Tensor& side : sides) {
    if (side.dtype() != dtype) side = side.to(dtype, place);
  }
  const Shape sa = first.shape(), sb = second.shape();
  if (sa.rank() == 0 || sb.rank() == 0) {
    throw ShapeError(fmt::format("matmul: both operands need at least one axis: {} x {}",
                                 to_string(sa), to_string(sb)));
  }
  Tensor a = sa.rank() == 1 ? sides[0].unsqueeze(0, place) : sides[0];
  Tensor b = sb.rank() == 1 ? sides[1].unsqueeze(1, place) : sides[1];
  const int ra = a.rank(), rb = b.rank();
  const std::int64_t m = a.shape()[ra - 2], k = a.shape()[ra - 1], n = b.shape()[rb - 1];
  if (k != b.shape()[rb - 2]) {
    throw ShapeError(
        fmt::format("matmul: inner dimensions differ: {} x {}", to_string(sa), to_string(sb)));
  }
  if (dtype == DType::boolean) graph::throw_dtype("matmul", dtype, "numbers");
  const Shape batch_a = leading(a.shape(), ra - 2), batch_b = leading(b.shape(), rb - 2);
  const Shape batch = broadcast_shapes("matmul", batch_a, batch_b);
  std::vector<std::int64_t> sizes(batch.begin(), batch.end());
  if (sa.rank() > 1) sizes.push_back(m);
  if (sb.rank() > 1) sizes.push_back(n);
  const Shape shape(sizes, "matmul");
  // Trailing batch axes along which b does not vary become rows of a's matrices. If b is one
  // matrix, these are all batch axes.
  const auto size_of_b = [&](int from_end) {
    return from_end < batch_b.rank() ? batch_b[batch_b.rank() - 1 - from_end] : 1;
  };
  int folded = 0;
  while (folded < batch_a.rank() && size_of_b(folded) == 1) ++folded;
  std::int64_t rows = m, matrices = 1;
  for (int i = 0; i < batch.rank(); ++i) {
    const bool fold = i >= batch.rank() - folded;
    (fold ? rows : matrices) *= fold ? batch_a[batch_a.rank() - (batch.rank() - i)] : batch[i];
  }
  Tensor result;
  if (batch_b.numel() == 1 && folded == batch.rank()) {
    result = graph::product(graph::reshape_to(a, Shape{rows, k}, place),
                            graph::reshape_to(b, Shape{k, n}, place), false, false,
                            graph::tf32_now(), place);
  } else {
    // A single matrix is broadcast with a stride of 0; other broadcasts are materialised.
    const auto spread = [&](const Tensor& x, std::int64_t height, std::int64_t width, int skipped) {
      const Shape all{matrices, height, width};
      if (x.numel() == height * width)
        return graph::expand_to(graph::reshape_to(x, Shape{1, height, width}, place), all, place);
      const Shape over = joined(leading(batch, batch.rank() - folded), {});
      std::vector<std::int64_t> own(x.shape().begin(), x.shape().end() - 2 - skipped);
      own.insert(own.end(), {height, width});
      const Tensor whole = graph::reshape_to(x, Shape(own), place);
      return graph::reshape_to(graph::expand_to(whole, joined(over, {height, width}), place), all,
                               place);
    };
    result = graph::product(spread(a, rows, k, folded),
                            spread(b, k, n, std::min(folded, batch_b.rank())), false, false,
                            graph::tf32_now(), place);
  }
  return graph::reshape_to(result, shape, place);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, SourceLocation place) {
  graph::require_floating("linear", x);
  graph::require_defined("linear", weight, "the weight");
  if (const auto wanted = graph::autocast_dtype(OpId::linear, {&x, &weight, &bias})) {
    return linear(graph::autocast(x, *wanted, place), graph::autocast(weight, *wanted, place),
                  graph::autocast(bias, *wanted, place), place);
  }
  const graph::Node &nx = *graph::node_of(x), &nw = *graph::node_of(weight);
  const Shape &sx = nx.shape, &sw = nw.shape;
  if (sw.rank() == 1 && (!bias.defined() || bias.rank() == 0)) {
    // A vector of weights is one row; the result does not have its axis.
    if (sx.rank() == 0 || sx[sx.rank() - 1] != sw[0]) throw_no_fit(sx, sw);
    const Tensor one = linear(x, weight.unsqueeze(0, place),
                              bias.defined() ? bias.unsqueeze(0, place) : bias, place);
    return one.squeeze(-1, place);
  }
  if (sw.rank() != 2 || sx.rank() == 0 || sx[sx.rank() - 1] != sw[1]) throw_no_fit(sx, sw);
  if (nw.dtype != nx.dtype) {
    throw DTypeError(
        fmt::format("linear: input is {}, weight is {}", name_of(nx.dtype), name_of(nw.dtype)));
  }
  if (bias.defined()) {
    const graph::Node& nb = *graph::node_of(bias);
    if (nb.shape.rank() != 1 || nb.shape[0] != sw[0]) {
      throw ShapeError(fmt::format("linear: bias {} does not fit weight {}", to_string(nb.shape),
                                   to_string(sw)));
    }
    if (nb.dtype != nx.dtype) {
      throw DTypeError(
          fmt::format("linear: input is {}, bias is {}", name_of(nx.dtype), name_of(nb.dtype)));
    }
  }
  if (!graph::is_placing() && !graph::on_one_device({x, weight, bias.defined() ? bias : x})) {
    Tensor inputs[3] = {x, weight, bias};
    graph::agree_on_device("linear", {inputs, bias.defined() ? 3u : 2u}, place);
    return linear(inputs[0], inputs[1], inputs[2], place);
  }
  if (sx.rank() != 2) {
    const Tensor rows =
        graph::reshape_to(x, Shape{leading(sx, sx.rank() - 1).numel(), sw[1]}, place);
    return graph::reshape_to(linear(rows, weight, bias, place), sx.with(sx.rank() - 1, sw[0]),
                             place);
  }
  const graph::Borrowed inputs[3] = {x, weight, bias};
  const std::int64_t tf32 = graph::tf32_now();
  return apply(OpId::linear, std::span(inputs, bias.defined() ? 3 : 2), {&tf32, 1},
               Shape{sx[0], sw[0]}, nx.dtype, place);
}

}  // namespace volta
