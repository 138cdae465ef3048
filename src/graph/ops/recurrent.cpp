// Recurrent layers: one node computes all steps and one their gradients. The gradients of the
// weight and the projection are a product over all steps.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/attributes/recurrence.h"
#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/placing.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/function.h"
#include "volta/ops.h"

namespace volta {
namespace graph {
namespace {

using Tensors = std::vector<Tensor>;

void require_shape(const Tensor& tensor, const Shape& wanted, const char* what) {
  if (tensor.shape() == wanted) return;
  throw ShapeError(fmt::format("recurrent: {} {} is not {}", what, to_string(tensor.shape()),
                               to_string(wanted)));
}

// A call of the layer, shared by its forward and backward functions.
struct Layer {
  Recurrence r;
  std::int64_t length, batch, size;
  std::int64_t out;  // size of h
  DType dtype;
  SourceLocation place;

  static std::size_t at(int input) { return static_cast<std::size_t>(input); }
  std::size_t results() const { return 1 + static_cast<std::size_t>(r.states()); }

  // Attributes, shapes and dtypes of the node that computes all steps.
  std::array<std::int64_t, 6> attrs() const {
    return {
        static_cast<std::int64_t>(r.cell), r.reverse, r.biased, r.has_states, r.tf32, r.projected};
  }
  std::vector<Shape> shapes() const {
    std::vector<Shape> shapes{{length, batch, out}, {batch, out}};
    if (r.is_lstm()) shapes.push_back({batch, size});
    shapes.insert(shapes.end(), static_cast<std::size_t>(r.kept()), Shape{length, batch, size});
    return shapes;
  }
  std::vector<DType> dtypes() const {
    std::vector<DType> dtypes(shapes().size(), dtype);
    if (r.is_lstm()) dtypes.back() = is_half(dtype) ? DType::f32 : dtype;  // the cell states
    return dtypes;
  }

  // Inputs are placed once for forward and backward, and outside the Function, so that the history
  // of a moved or cast input still leads to its leaf.
  void place_inputs(Tensors& inputs) const {
    if (!is_placing()) return agree_on_device("recurrent", inputs, place);
    const std::vector<Borrowed> views(inputs.begin(), inputs.end());
    Tensors there = placed_operands({OpId::recurrent, views, attrs(), shapes(), dtypes(), place});
    if (!there.empty()) inputs = std::move(there);
  }

  Tensors forward(const Tensors& inputs) const {
    const AsWritten where_they_are;
    return apply_multi(OpId::recurrent, inputs, attrs(), shapes(), dtypes(), place);
  }

  // The gradients of the inputs, from the inputs and results of the forward function and the
  // gradients of its first results.
  Tensors backward(const FunctionContext& context, const Tensors& inputs, const Tensors& results,
                   const Tensors& gradients) const {
    Tensors from{inputs[1]};
    if (r.projected) from.push_back(inputs[at(r.projection())]);
    if (r.has_states && r.kept() > 0) from.push_back(inputs[at(r.is_lstm() ? r.c() : r.h())]);
    if (!r.is_lstm()) from.push_back(results[0]);
    from.insert(from.end(), results.begin() + static_cast<std::ptrdiff_t>(this->results()),
                results.end());
    std::int64_t which = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      which |= std::int64_t{1} << i;
      from.push_back(gradients[i]);
    }
    const Shape all{length, batch, gates_of(r.cell) * size};
    std::vector<Shape> shapes{all, {batch, out}};
    if (r.kept() > 0) shapes.push_back(r.is_lstm() ? Shape{batch, size} : all);
    if (r.projected) shapes.push_back({length, batch, out});
    const std::vector<DType> dtypes(shapes.size(), dtype);
    const std::int64_t attrs[] = {
        static_cast<std::int64_t>(r.cell), r.reverse, which, r.has_states, r.tf32, r.projected};
    const Tensors found = apply_multi(OpId::recurrent_grad, from, attrs, shapes, dtypes, place);
    const Tensor& to_state = r.is_gru() ? found[2] : found[0];
    Tensors to(inputs.size());
    to[0] = found[0];
    if (context.needs_gradient(1)) {
      to[1] = weight_gradient(to_state, results[0], r.has_states ? inputs[at(r.h())] : Tensor());
    }
    if (r.biased && context.needs_gradient(at(r.bias()))) {
      const std::int64_t axes[] = {0, 1};
      to[at(r.bias())] = sum_axes(to_state, axes, false, place);
    }
    if (r.projected && context.needs_gradient(at(r.projection()))) {
      to[at(r.projection())] = projection_gradient(found[3], results);
    }
    if (r.has_states) to[at(r.h())] = found[1];
    if (r.has_states && r.is_lstm()) to[at(r.c())] = found[2];
    return to;
  }

  // The sum over steps of dh^T (o tanh(c)). The projected values o tanh(c) are recomputed.
  Tensor projection_gradient(const Tensor& dh, const Tensors& results) const {
    const Tensor &o = results[this->results() + 3], &c = results[this->results() + 4];
    const Tensor whole = (o.to(c.dtype(), place) * c.tanh()).to(dtype, place);
    const std::int64_t rows = length * batch;
    return product(reshape_to(dh, {rows, out}, place), reshape_to(whole, {rows, size}, place), true,
                   false, r.tf32, place);
  }

  // The sum over steps of gates^T h, where h is the state before the step: one product for all
  // steps but the first, whose h is not an output.
  Tensor weight_gradient(const Tensor& gates, const Tensor& output, const Tensor& h) const {
    const std::int64_t width = gates.shape()[2], rows = (length - 1) * batch;
    Tensor sum;
    if (length > 1) {
      const Tensor later = gates.narrow(0, r.reverse ? 0 : 1, length - 1, place),
                   before = output.narrow(0, r.reverse ? 1 : 0, length - 1, place);
      sum = product(reshape_to(later, {rows, width}, place), reshape_to(before, {rows, out}, place),
                    true, false, r.tf32, place);
    }
    if (h.defined()) {
      const Tensor first = gates.narrow(0, r.reverse ? length - 1 : 0, 1, place);
      const Tensor one =
          product(reshape_to(first, {batch, width}, place), h, true, false, r.tf32, place);
      sum = sum.defined() ? add({sum, place}, {one, place}) : one;
    }
    return sum.defined() ? sum : filled({width, out}, 0, dtype, gates.device());
  }

  // The same layer in differentiable operations, for gradients of gradients.
  Tensors composed(const Tensors& inputs) const {
    const Tensor &x = inputs[0], &weight = inputs[1];
    Tensor h = r.has_states ? inputs[at(r.h())] : filled({batch, out}, 0, dtype, x.device());
    Tensor c = !r.is_lstm()   ? Tensor()
               : r.has_states ? inputs[at(r.c())]
                              : filled({batch, size}, 0, dtype, x.device());
    Tensors output(static_cast<std::size_t>(length));
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = r.reverse ? length - 1 - step : step;
      const Tensor in = reshape_to(x.narrow(0, t, 1, place), {batch, x.shape()[2]}, place);
      const Tensor state = linear(h, weight, r.biased ? inputs[at(r.bias())] : Tensor(), place);
      const auto gate = [&](const Tensor& of, std::int64_t number) {
        return of.narrow(1, number * size, size, place);
      };
      const Tensor all = in + state;
      if (r.is_lstm()) {
        c = gate(all, 1).sigmoid() * c + gate(all, 0).sigmoid() * gate(all, 2).tanh();
        h = gate(all, 3).sigmoid() * c.tanh();
        if (r.projected) h = linear(h, inputs[at(r.projection())], {}, place);
      } else if (r.is_gru()) {
        const Tensor z = gate(all, 1).sigmoid();
        const Tensor n = (gate(in, 2) + gate(all, 0).sigmoid() * gate(state, 2)).tanh();
        h = (1 - z) * n + z * h;
      } else {
        h = r.cell == Cell::tanh ? all.tanh() : all.relu();
      }
      output[static_cast<std::size_t>(t)] = h;
    }
    Tensors results{stack(output, 0, place), h};
    if (r.is_lstm()) results.push_back(c);
    return results;
  }
};

Tensors gradients_with_history(const Layer& layer, const Tensors& inputs,
                               const Tensors& gradients) {
  const Tensors results = layer.composed(inputs);
  Tensors outputs, starts, wanted;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    outputs.push_back(results[i]);
    starts.push_back(gradients[i]);
  }
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  const Tensors found =
      grad(outputs, wanted, {.grad_outputs = starts, .create_graph = true, .allow_unused = true},
           layer.place);
  Tensors to(inputs.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].requires_grad()) to[i] = found[next++];
  }
  return to;
}

// The layer that these operands describe, except for the weight.
Layer layer_of(Cell cell, const Tensor& x, const Tensor& bias, const Tensor& h, const Tensor& c,
               const RecurrentOptions& options, SourceLocation place) {
  const std::int64_t gates = gates_of(cell);
  const bool fits = x.rank() == 3 && x.shape()[0] > 0 && x.shape()[2] % gates == 0;
  if (!fits) {
    throw ShapeError(fmt::format("recurrent: x {} is not [length, batch, {} * size]",
                                 to_string(x.shape()), gates));
  }
  const Tensor& projection = options.projection;
  const std::int64_t size = x.shape()[2] / gates;
  Layer layer{{}, x.shape()[0], x.shape()[1], size, size, x.dtype(), place};
  layer.r.cell = cell;
  layer.r.reverse = options.reverse;
  layer.r.biased = bias.defined();
  layer.r.has_states = h.defined();
  layer.r.tf32 = tf32_now();
  layer.r.projected = projection.defined();
  const bool is_lstm = layer.r.is_lstm();
  if (c.defined() != (is_lstm && h.defined())) {
    throw ArgumentError(!is_lstm      ? "recurrent: only an LSTM has a state c"
                        : h.defined() ? "recurrent: a state h without c"
                                      : "recurrent: a state c without h");
  }
  if (projection.defined()) {
    if (!is_lstm) throw ArgumentError("recurrent: only an LSTM has a projection");
    const bool is_matrix = projection.rank() == 2 && projection.shape()[1] == size;
    if (!is_matrix) {
      throw ShapeError(fmt::format("recurrent: projection {} is not [size of h, {}]",
                                   to_string(projection.shape()), size));
    }
    layer.out = projection.shape()[0];
  }
  return layer;
}

// Checks the operands and returns those that are given, in the order of the layer's inputs.
Tensors checked_inputs(const Layer& layer, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& projection, const Tensor& h,
                       const Tensor& c) {
  const std::int64_t rows = x.shape()[2];
  require_shape(weight, {rows, layer.out}, "weight");
  Tensors inputs{x, weight};
  if (bias.defined()) {
    require_shape(bias, {rows}, "bias");
    inputs.push_back(bias);
  }
  if (projection.defined()) inputs.push_back(projection);
  if (h.defined()) {
    require_shape(h, {layer.batch, layer.out}, "h");
    inputs.push_back(h);
  }
  if (c.defined()) {
    require_shape(c, {layer.batch, layer.size}, "c");
    inputs.push_back(c);
  }
  for (const Tensor& input : inputs) {
    if (input.dtype() == x.dtype()) continue;
    throw DTypeError(fmt::format("recurrent: x is {}, another operand is {}", name_of(x.dtype()),
                                 name_of(input.dtype())));
  }
  return inputs;
}

}  // namespace
}  // namespace graph

std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

RecurrentResult recurrent(Cell cell, const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& h, const Tensor& c, const RecurrentOptions& options,
                          SourceLocation place) {
  using graph::Tensors;
  graph::require_floating("recurrent", x);
  graph::require_defined("recurrent", weight, "the weight");
  const Tensor& projection = options.projection;
  if (const auto wanted = graph::autocast_dtype(graph::OpId::recurrent,
                                                {&x, &weight, &bias, &projection, &h, &c})) {
    const auto cast = [&](const Tensor& tensor) {
      return tensor.defined() ? graph::autocast(tensor, *wanted, place) : tensor;
    };
    return recurrent(cell, cast(x), cast(weight), cast(bias), cast(h), cast(c),
                     {.reverse = options.reverse, .projection = cast(projection)}, place);
  }
  graph::Layer layer = graph::layer_of(cell, x, bias, h, c, options, place);
  Tensors inputs = graph::checked_inputs(layer, x, weight, bias, projection, h, c);
  layer.place_inputs(inputs);
  const std::size_t given = inputs.size(), results = layer.results();
  const Function function(
      {.name = "recurrent",
       .forward =
           [=](FunctionContext& context, const Tensors& from) {
             Tensors all = layer.forward(from), kept = from;
             kept.insert(kept.end(), all.begin(), all.end());
             context.save(std::move(kept));
             all.resize(results);
             return all;
           },
       .backward =
           [=](FunctionContext& context, const Tensors& gradients) {
             const graph::AsWritten where_they_are;
             const Tensors& kept = context.saved();
             const Tensors from(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(given));
             if (grad_enabled()) return graph::gradients_with_history(layer, from, gradients);
             const Tensors all(kept.begin() + static_cast<std::ptrdiff_t>(given), kept.end());
             return layer.backward(context, from, all, gradients);
           }});
  Tensors found = function(inputs, place);
  return {std::move(found[0]), std::move(found[1]),
          layer.r.is_lstm() ? std::move(found[2]) : Tensor()};
}

}  // namespace volta
