// LSTMCell, GRUCell and RNNCell: recurrent layers over sequences of one step.
#include "volta/nn/recurrent_cells.h"

#include <cmath>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta::nn {

RecurrentCell::RecurrentCell(const char* name, Cell cell, std::int64_t input_size,
                             std::int64_t hidden_size, const RecurrentCellOptions& options)
    : name_(name), cell_(cell), input_size_(input_size), hidden_size_(hidden_size) {
  if (input_size < 1 || hidden_size < 1) {
    throw ArgumentError(
        fmt::format("{}: sizes must be positive, got ({}, {})", name, input_size, hidden_size));
  }
  require_range(name, "hidden_size", hidden_size, 1, kMaxSize);
  const std::int64_t rows = gates_of(cell) * hidden_size;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const TensorOptions made = {.dtype = options.dtype, .device = options.device};
  weight_ih = add_parameter("weight_ih", uniform({rows, input_size}, -bound, bound, made));
  weight_hh = add_parameter("weight_hh", uniform({rows, hidden_size}, -bound, bound, made));
  if (!options.bias) return;
  bias_ih = add_parameter("bias_ih", uniform({rows}, -bound, bound, made));
  bias_hh = add_parameter("bias_hh", uniform({rows}, -bound, bound, made));
}

LSTMState RecurrentCell::run(const Tensor& x, const Tensor& h, const Tensor& c,
                             SourceLocation place) const {
  if (!x.defined()) throw ArgumentError(fmt::format("{}: the input is not a tensor", name_));
  if (x.rank() != 1 && x.rank() != 2) {
    throw ShapeError(fmt::format("{}: input {} needs 1 or 2 axes", name_, to_string(x.shape())));
  }
  if (x.shape()[x.rank() - 1] != input_size_) {
    throw ShapeError(fmt::format("{}: input {} does not end in input_size {}", name_,
                                 to_string(x.shape()), input_size_));
  }
  const bool batched = x.rank() == 2;
  const std::int64_t batch = batched ? x.shape()[0] : 1;
  const Shape own = batched ? Shape{batch, hidden_size_} : Shape{hidden_size_};
  const auto with_batch = [&](const Tensor& state, const char* which) {
    if (!state.defined()) {
      throw ArgumentError(fmt::format("{}: the state {} is not a tensor", name_, which));
    }
    if (state.shape() != own) {
      throw ShapeError(fmt::format("{}: state {} {} is not {} for input {}", name_, which,
                                   to_string(state.shape()), to_string(own), to_string(x.shape())));
    }
    return state.reshape({batch, hidden_size_}, place);
  };
  Tensor h0, c0;
  if (h.defined() || c.defined()) {
    h0 = with_batch(h, "h");
    if (cell_ == Cell::lstm) c0 = with_batch(c, "c");
  }
  const Tensor step = x.reshape({1, batch, input_size_}, place);
  const RecurrentResult result = recurrent(cell_, linear(step, weight_ih, bias_ih, place),
                                           weight_hh, bias_hh, h0, c0, {}, place);
  const LSTMState state{result.h.reshape(own, place),
                        result.c.defined() ? result.c.reshape(own, place) : result.c};
  if (cell_ == Cell::lstm) {
    called({x, h, c}, {state.h, state.c});
  } else {
    called({x, h}, {state.h});
  }
  return state;
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, RecurrentCellOptions options)
    : RecurrentCell("LSTMCell", Cell::lstm, input_size, hidden_size, options) {}
LSTMState LSTMCell::operator()(const Tensor& x, SourceLocation place) {
  return run(x, {}, {}, place);
}
LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& state, SourceLocation place) {
  return run(x, state.h, state.c, place);
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, RecurrentCellOptions options)
    : RecurrentCell("GRUCell", Cell::gru, input_size, hidden_size, options) {}
Tensor GRUCell::operator()(const Tensor& x, SourceLocation place) {
  return run(x, {}, {}, place).h;
}
Tensor GRUCell::operator()(const Tensor& x, const Tensor& state, SourceLocation place) {
  return run(x, state, {}, place).h;
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNNCellOptions options)
    : RecurrentCell("RNNCell",
                    options.nonlinearity == RNNNonlinearity::tanh ? Cell::tanh : Cell::relu,
                    input_size, hidden_size,
                    {.bias = options.bias, .dtype = options.dtype, .device = options.device}) {}
Tensor RNNCell::operator()(const Tensor& x, SourceLocation place) {
  return run(x, {}, {}, place).h;
}
Tensor RNNCell::operator()(const Tensor& x, const Tensor& state, SourceLocation place) {
  return run(x, state, {}, place).h;
}

}  // namespace volta::nn
