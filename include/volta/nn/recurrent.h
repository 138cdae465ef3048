// LSTM, GRU and RNN over sequences, as PyTorch's: layers on top of each other, both directions,
// dropout in between. Inputs are [length, batch, input_size], with batch_first [batch, length,
// input_size], or [length, input_size] of one sequence; sequences of one batch have one length.
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
  bool batch_first = false;  // of inputs and outputs; states are [layers, batch, size] anyway
  double dropout = 0;        // of what goes from one layer to the next, while training
  bool bidirectional = false;
  // Below hidden_size: h is projected to this size at every step; c is not. 0: it is not.
  std::int64_t proj_size = 0;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};
struct GRUOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
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
  std::optional<Device> device = std::nullopt;  // none: where new tensors are made
};

// What the three have in common. A layer has a weight_ih [gates * hidden_size, its input's size], a
// weight_hh [gates * hidden_size, size of h], a bias_ih and a bias_hh [gates * hidden_size] and,
// with proj_size, a weight_hr [proj_size, hidden_size] for each direction, named weight_ih_l0, ...,
// weight_ih_l0_reverse, ...; all of them start uniform within ±1 / sqrt(hidden_size).
class VOLTA_API RecurrentLayers : public Module {
 public:
  struct Weights {
    Parameter weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;  // undefined where there is none
  };
  const Weights& weights(std::int64_t layer = 0, bool reverse = false) const;

  std::int64_t input_size() const { return input_size_; }
  std::int64_t hidden_size() const { return hidden_size_; }
  std::int64_t output_size() const {  // of h
    return options_.proj_size > 0 ? options_.proj_size : hidden_size_;
  }
  std::int64_t num_layers() const { return options_.num_layers; }
  bool is_bidirectional() const { return options_.bidirectional; }

 protected:
  RecurrentLayers(const char* name, Cell cell, std::int64_t input_size, std::int64_t hidden_size,
                  const LSTMOptions& options);
  // Outputs of the last layer, and the last states of all.
  RecurrentResult run(const Tensor& x, const Tensor& h, const Tensor& c, Place place) const;

 private:
  void check_input(const Tensor& x) const;
  void check_state(const Tensor& x, const Tensor& state, const char* which,
                   std::int64_t size) const;

  const char* name_;
  Cell cell_;
  std::int64_t input_size_, hidden_size_;
  LSTMOptions options_;
  std::vector<Weights> weights_;  // by layer, then direction
};

// States are [num_layers * directions, batch, size], of one sequence without the batch; the size of
// h is proj_size if there is one, else it is hidden_size.
struct LSTMState {
  Tensor h, c;
};
struct LSTMOutput {
  // The last layer's h at every step, as the input but with size * directions features.
  Tensor output;
  LSTMState state;
};
// auto [y, state] = lstm(x); then lstm(next, state) goes on from there.
class VOLTA_API LSTM : public RecurrentLayers {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, LSTMOptions options = {});
  LSTMOutput operator()(const Tensor& x, Place place = Place::here());  // from states of zeros
  LSTMOutput operator()(const Tensor& x, const LSTMState& state, Place place = Place::here());
};

struct GRUOutput {
  Tensor output, state;
};
class VOLTA_API GRU : public RecurrentLayers {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, GRUOptions options = {});
  GRUOutput operator()(const Tensor& x, Place place = Place::here());
  GRUOutput operator()(const Tensor& x, const Tensor& state, Place place = Place::here());
};

using RNNOutput = GRUOutput;
class VOLTA_API RNN : public RecurrentLayers {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, RNNOptions options = {});
  RNNOutput operator()(const Tensor& x, Place place = Place::here());
  RNNOutput operator()(const Tensor& x, const Tensor& state, Place place = Place::here());
};

}  // namespace volta::nn
