// LSTM, GRU and RNN over sequences, as in PyTorch: stacked layers, both directions, dropout in
// between. Inputs are [length, batch, input_size], with batch_first [batch, length, input_size], or
// [length, input_size] for a single sequence. All sequences of a batch have the same length.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "volta/nn/module.h"
#include "volta/recurrent.h"

namespace volta::nn {

struct LSTMOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // for inputs and outputs; states are always [layers, batch, size]
  double dropout = 0;        // between layers, in training
  bool bidirectional = false;
  // Projects h, but not c, to this size at every step. It is below hidden_size; 0 means no
  // projection.
  std::int64_t proj_size = 0;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct GRUOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

enum class RNNNonlinearity : std::uint8_t { tanh, relu };
struct RNNOptions {
  std::int64_t num_layers = 1;
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Common part of LSTM, GRU and RNN. Each layer and direction has weight_ih [gates * hidden_size,
// input size of the layer], weight_hh [gates * hidden_size, size of h], bias_ih and bias_hh [gates
// * hidden_size] and, with proj_size, weight_hr [proj_size, hidden_size]. They are named
// weight_ih_l0, ..., weight_ih_l0_reverse, ..., and start uniform within ±1 / sqrt(hidden_size).
class VOLTA_API RecurrentLayers : public Module {
 public:
  struct Weights {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;  // undefined if absent
  };
  const Weights& weights(std::int64_t layer = 0, bool reverse = false) const;

  std::int64_t input_size() const { return input_size_; }
  std::int64_t hidden_size() const { return hidden_size_; }
  std::int64_t output_size() const {  // size of h
    return options_.proj_size > 0 ? options_.proj_size : hidden_size_;
  }
  std::int64_t num_layers() const { return options_.num_layers; }
  bool is_bidirectional() const { return options_.bidirectional; }

 protected:
  RecurrentLayers(const char* name, Cell cell, std::int64_t input_size, std::int64_t hidden_size,
                  const LSTMOptions& options);
  // Returns the outputs of the last layer and the final states of all layers.
  RecurrentResult run(const Tensor& x, const Tensor& h, const Tensor& c,
                      SourceLocation place) const;

 private:
  void check_input(const Tensor& x) const;
  void check_state(const Tensor& x, const Tensor& state, const char* which,
                   std::int64_t size) const;

  const char* name_;
  Cell cell_;
  std::int64_t input_size_, hidden_size_;
  LSTMOptions options_;
  detail::Shared<std::vector<Weights>> weights_;  // ordered by layer, then direction
};

// States are [num_layers * directions, batch, size], without the batch axis for a single sequence.
// The size of h is proj_size if set, else hidden_size.
struct LSTMState {
  Tensor h, c;
};
struct LSTMOutput {
  // The last layer's h at every step, shaped like the input but with size * directions features.
  Tensor output;
  LSTMState state;
};
// auto [y, state] = lstm(x); then lstm(next, state) continues from that state.
class VOLTA_API LSTM : public RecurrentLayers {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, LSTMOptions options = {});
  LSTMOutput operator()(const Tensor& x,
                        SourceLocation place = SourceLocation::here());  // starts from zeros
  LSTMOutput operator()(const Tensor& x, const LSTMState& state,
                        SourceLocation place = SourceLocation::here());
};

struct GRUOutput {
  Tensor output, state;
};
class VOLTA_API GRU : public RecurrentLayers {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, GRUOptions options = {});
  GRUOutput operator()(const Tensor& x, SourceLocation place = SourceLocation::here());
  GRUOutput operator()(const Tensor& x, const Tensor& state,
                       SourceLocation place = SourceLocation::here());
};

using RNNOutput = GRUOutput;
class VOLTA_API RNN : public RecurrentLayers {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, RNNOptions options = {});
  RNNOutput operator()(const Tensor& x, SourceLocation place = SourceLocation::here());
  RNNOutput operator()(const Tensor& x, const Tensor& state,
                       SourceLocation place = SourceLocation::here());
};

}  // namespace volta::nn
