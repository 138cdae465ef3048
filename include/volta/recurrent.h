// One layer of a recurrent network in one direction, over a whole sequence.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

// How a step computes its state from the gates [batch, gates * size], which are in PyTorch's order:
//   lstm  4 gates (i, f, g, o)  c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c)
//   gru   3 gates (r, z, n)     h = (1 - z) n + z h, where the state's part of n is multiplied by r
//   tanh, relu  1 gate          h = tanh(gate), relu(gate)
enum class Cell : std::uint8_t { lstm, gru, tanh, relu };
VOLTA_API std::int64_t gates_of(Cell cell);

struct RecurrentOptions {
  bool reverse = false;  // processes the sequence from its last element to its first
  // The projection [out, size] of an LSTM: every step multiplies h [batch, size] by its transpose.
  Tensor projection = {};
};
struct RecurrentResult {
  Tensor output;  // h of every step, [length, batch, size]
  Tensor h, c;    // final states, [batch, size]; c only for an LSTM
};

// ---- Recurrent networks.
// x [length, batch, gates * size] contains the input's part of the gates for all steps. Each step
// adds h weight^T + bias, with weight [gates * size, size of h] and bias [gates * size], if
// defined. Undefined states [batch, size] stand for zeros.
VOLTA_API RecurrentResult recurrent(Cell cell, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias = {}, const Tensor& h = {},
                                    const Tensor& c = {}, const RecurrentOptions& options = {},
                                    SourceLocation place = SourceLocation::here());

}  // namespace volta
