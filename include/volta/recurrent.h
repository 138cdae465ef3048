// One layer of a recurrent network, in one direction, over a whole sequence.
#pragma once

#include <cstdint>

#include "volta/tensor.h"

namespace volta {

// What a step makes of its gates, [batch, gates * size], in PyTorch's order:
//   lstm  4 gates (i, f, g, o)  c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c)
//   gru   3 gates (r, z, n)     h = (1 - z) n + z h, where the state's part of n is multiplied by r
//   tanh, relu  1 gate          h = tanh(gate), relu(gate)
enum class Cell : std::uint8_t { lstm, gru, tanh, relu };
VOLTA_API std::int64_t gates_of(Cell cell);

struct RecurrentOptions {
  bool reverse = false;  // from the last element of the sequence to the first
  // Of an LSTM, [out, size]: h is multiplied by its transpose at every step, and has size out.
  Tensor projection = {};
};
struct RecurrentResult {
  Tensor output;  // every h, [length, batch, size]
  Tensor h, c;    // the last ones, [batch, size]; c of an LSTM only
};

// ---- Recurrent networks.
// x [length, batch, gates * size] is the input's part of the gates of all steps; each step adds
// h weight^T + bias, for weight [gates * size, size of h] and bias [gates * size], if defined.
// States [batch, size] that are undefined are zeros.
VOLTA_API RecurrentResult recurrent(Cell cell, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias = {}, const Tensor& h = {},
                                    const Tensor& c = {}, const RecurrentOptions& options = {},
                                    SourceLocation place = SourceLocation::here());

}  // namespace volta
