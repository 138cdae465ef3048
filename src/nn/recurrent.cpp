// LSTM, GRU and RNN. Each layer and direction computes one product for the inputs of all steps,
// then the steps.
#include "volta/nn/recurrent.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {
namespace {

template <class Options>
LSTMOptions common(const Options& o) {
  return {.num_layers = o.num_layers,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dropout = o.dropout,
          .bidirectional = o.bidirectional,
          .dtype = o.dtype,
          .device = o.device};
}

Tensor joined(std::vector<Tensor> parts, std::int64_t axis, SourceLocation place) {
  return parts.size() == 1 ? std::move(parts[0]) : concat(parts, axis, place);
}

}  // namespace

RecurrentLayers::RecurrentLayers(const char* name, Cell cell, std::int64_t input_size,
                                 std::int64_t hidden_size, const LSTMOptions& options)
    : name_(name),
      cell_(cell),
      input_size_(input_size),
      hidden_size_(hidden_size),
      options_(options) {
  if (input_size < 1 || hidden_size < 1) {
    throw ArgumentError(
        fmt::format("{}: sizes must be positive, got ({}, {})", name, input_size, hidden_size));
  }
  require_range(name, "hidden_size", hidden_size, 1, kMaxSize);
  require_range(name, "num_layers", options.num_layers, 1, kMaxLayers);
  const bool inside = options.dropout >= 0 && options.dropout <= 1;  // false for NaN
  if (!inside) {
    throw ArgumentError(
        fmt::format("{}: dropout must be in [0, 1], got {}", name, options.dropout));
  }
  if (options.proj_size < 0 || options.proj_size >= hidden_size) {
    throw ArgumentError(fmt::format("{}: proj_size must be in [0, hidden_size {}), got {}", name,
                                    hidden_size, options.proj_size));
  }
  weights_ = detail::Shared(std::make_shared<std::vector<Weights>>());
  const std::int64_t rows = gates_of(cell) * hidden_size, out = output_size(),
                     directions = options.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", layer, direction == 0 ? "" : "_reverse");
      const auto make = [&](const char* kind, const Shape& shape) {
        return add_parameter(kind + suffix, uniform(shape, -bound, bound, made));
      };
      Weights& weights = weights_->emplace_back();
      weights.weight_ih = make("weight_ih", {rows, layer == 0 ? input_size : out * directions});
      weights.weight_hh = make("weight_hh", {rows, out});
      if (options.bias) {
        weights.bias_ih = make("bias_ih", {rows});
        weights.bias_hh = make("bias_hh", {rows});
      }
      if (options.proj_size > 0) weights.weight_hr = make("weight_hr", {out, hidden_size});
    }
  }
}

const RecurrentLayers::Weights& RecurrentLayers::weights(std::int64_t layer, bool reverse) const {
  if (layer < 0 || layer >= options_.num_layers || (reverse && !options_.bidirectional)) {
    throw ArgumentError(
        fmt::format("{}: there is no layer {}{}", name_, layer, reverse ? " in reverse" : ""));
  }
  const std::int64_t directions = options_.bidirectional ? 2 : 1;
  return (*weights_)[static_cast<std::size_t>(layer * directions + (reverse ? 1 : 0))];
}

void RecurrentLayers::check_input(const Tensor& x) const {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", name_));
  const bool batched = x.rank() == 3;
  if (!batched && x.rank() != 2) {
    throw ShapeError(fmt::format("{}: input {} needs 2 or 3 axes", name_, to_string(x.shape())));
  }
  if (x.shape()[x.rank() - 1] != input_size_) {
    throw ShapeError(fmt::format("{}: input {} does not end in input_size {}", name_,
                                 to_string(x.shape()), input_size_));
  }
  if (x.shape()[batched && options_.batch_first ? 1 : 0] == 0) {
    throw ShapeError(fmt::format("{}: input {} has no steps", name_, to_string(x.shape())));
  }
}

void RecurrentLayers::check_state(const Tensor& x, const Tensor& state, const char* which,
                                  std::int64_t size) const {
  if (!state.defined()) {
    throw ArgumentError(fmt::format("{}: the state {} is not a tensor", name_, which));
  }
  const std::int64_t layers = options_.num_layers * (options_.bidirectional ? 2 : 1);
  const Shape wanted = x.rank() == 2 ? Shape{layers, size}
                                     : Shape{layers, x.shape()[options_.batch_first ? 0 : 1], size};
  if (state.shape() != wanted) {
    throw ShapeError(fmt::format("{}: state {} {} is not {} for input {}", name_, which,
                                 to_string(state.shape()), to_string(wanted),
                                 to_string(x.shape())));
  }
}

RecurrentResult RecurrentLayers::run(const Tensor& x, const Tensor& h, const Tensor& c,
                                     SourceLocation place) const {
  check_input(x);
  if (h.defined() || c.defined()) {
    check_state(x, h, "h", output_size());
    if (cell_ == Cell::lstm) check_state(x, c, "c", hidden_size_);
  }
  // A single sequence gets a batch axis too: [length, batch, features].
  const bool batched = x.rank() == 3;
  const auto with_batch = [&](const Tensor& t) { return batched ? t : t.unsqueeze(1, place); };
  Tensor now = batched && options_.batch_first ? x.transpose(0, 1, place) : with_batch(x);
  const Tensor h0 = h.defined() ? with_batch(h) : h, c0 = c.defined() ? with_batch(c) : c;
  const std::int64_t batch = now.shape()[1], directions = options_.bidirectional ? 2 : 1;
  const auto state_of = [&](const Tensor& all, std::size_t index) {
    if (!all.defined()) return all;
    const Tensor one = all.narrow(0, static_cast<std::int64_t>(index), 1, place);
    return one.reshape({batch, all.size(2)}, place);
  };
  std::vector<Tensor> last_h, last_c;
  const auto keep = [&](std::vector<Tensor>& all, const Tensor& one) {
    all.push_back(one.unsqueeze(0, place));
  };
  for (std::int64_t layer = 0; layer < options_.num_layers; ++layer) {
    if (layer > 0) now = dropout(now, options_.dropout, is_training(), place);
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::size_t index = static_cast<std::size_t>(layer * directions + direction);
      const Weights& w = (*weights_)[index];
      const Tensor gates = linear(now, w.weight_ih, w.bias_ih, place);
      const RecurrentResult result =
          recurrent(cell_, gates, w.weight_hh, w.bias_hh, state_of(h0, index), state_of(c0, index),
                    {.reverse = direction == 1, .projection = w.weight_hr}, place);
      outputs.push_back(result.output);
      keep(last_h, result.h);
      if (result.c.defined()) keep(last_c, result.c);
    }
    now = joined(std::move(outputs), 2, place);
  }
  const auto without_batch = [&](const Tensor& t) { return batched ? t : t.squeeze(1, place); };
  RecurrentResult result;
  result.output = batched && options_.batch_first ? now.transpose(0, 1, place) : without_batch(now);
  result.h = without_batch(joined(std::move(last_h), 0, place));
  if (!last_c.empty()) result.c = without_batch(joined(std::move(last_c), 0, place));
  if (cell_ == Cell::lstm) {
    called({x, h, c}, {result.output, result.h, result.c});
  } else {
    called({x, h}, {result.output, result.h});
  }
  return result;
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, LSTMOptions options)
    : RecurrentLayers("LSTM", Cell::lstm, input_size, hidden_size, options) {}

LSTMOutput LSTM::operator()(const Tensor& x, SourceLocation place) {
  return (*this)(x, LSTMState{}, place);
}
LSTMOutput LSTM::operator()(const Tensor& x, const LSTMState& state, SourceLocation place) {
  RecurrentResult result = run(x, state.h, state.c, place);
  return {std::move(result.output), {std::move(result.h), std::move(result.c)}};
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, GRUOptions options)
    : RecurrentLayers("GRU", Cell::gru, input_size, hidden_size, common(options)) {}

GRUOutput GRU::operator()(const Tensor& x, SourceLocation place) {
  return (*this)(x, Tensor(), place);
}
GRUOutput GRU::operator()(const Tensor& x, const Tensor& state, SourceLocation place) {
  RecurrentResult result = run(x, state, {}, place);
  return {std::move(result.output), std::move(result.h)};
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, RNNOptions options)
    : RecurrentLayers("RNN",
                      options.nonlinearity == RNNNonlinearity::tanh ? Cell::tanh : Cell::relu,
                      input_size, hidden_size, common(options)) {}

RNNOutput RNN::operator()(const Tensor& x, SourceLocation place) {
  return (*this)(x, Tensor(), place);
}
RNNOutput RNN::operator()(const Tensor& x, const Tensor& state, SourceLocation place) {
  RecurrentResult result = run(x, state, {}, place);
  return {std::move(result.output), std::move(result.h)};
}

}  // namespace volta::nn
