// LSTMCell, GRUCell and RNNCell: single steps, as in PyTorch. Inputs are [batch, input_size], or
// [input_size] for a single sequence; states are [batch, hidden_size] or [hidden_size].
#pragma once

#include <cstdint>
#include <optional>

#include "volta/nn/module.h"
#include "volta/nn/recurrent.h"
#include "volta/recurrent.h"

namespace volta::nn {

struct RecurrentCellOptions {
  bool bias = true;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};
struct RNNCellOptions {
  bool bias = true;
  RNNNonlinearity nonlinearity = RNNNonlinearity::tanh;
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// Common part of the three cells. All parameters start uniform within ±1 / sqrt(hidden_size).
class VOLTA_API RecurrentCell : public Module {
 public:
  Parameter weight_ih;  // [gates * hidden_size, input_size]
  Parameter weight_hh;  // [gates * hidden_size, hidden_size]
  Parameter bias_ih;    // [gates * hidden_size]; undefined if disabled
  Parameter bias_hh;

 protected:
  RecurrentCell(const char* name, Cell cell, std::int64_t input_size, std::int64_t hidden_size,
                const RecurrentCellOptions& options);
  LSTMState run(const Tensor& x, const Tensor& h, const Tensor& c, SourceLocation place) const;

 private:
  const char* name_;
  Cell cell_;
  std::int64_t input_size_, hidden_size_;
};

// auto [h, c] = cell(x, {h, c})
class VOLTA_API LSTMCell : public RecurrentCell {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, RecurrentCellOptions options = {});
  LSTMState operator()(const Tensor& x,
                       SourceLocation place = SourceLocation::here());  // starts from zeros
  LSTMState operator()(const Tensor& x, const LSTMState& state,
                       SourceLocation place = SourceLocation::here());
};

class VOLTA_API GRUCell : public RecurrentCell {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, RecurrentCellOptions options = {});
  Tensor operator()(const Tensor& x, SourceLocation place = SourceLocation::here());
  Tensor operator()(const Tensor& x, const Tensor& state,
                    SourceLocation place = SourceLocation::here());
};

class VOLTA_API RNNCell : public RecurrentCell {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNNCellOptions options = {});
  Tensor operator()(const Tensor& x, SourceLocation place = SourceLocation::here());
  Tensor operator()(const Tensor& x, const Tensor& state,
                    SourceLocation place = SourceLocation::here());
};

}  // namespace volta::nn
