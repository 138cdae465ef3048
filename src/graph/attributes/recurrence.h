// The attributes, inputs and results of the nodes of a recurrent layer.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "volta/recurrent.h"

namespace volta::graph {

// Attributes of `recurrent`. Inputs: x, weight, and, if given, bias, projection, h, c. Results: the
// output, the last h, and for an LSTM the last c; then values for the gradient, each [length,
// batch, size]: i, f, g, o and every c for an LSTM; r, z, n and the state's part of n for a GRU.
struct Recurrence {
  Cell cell = Cell::lstm;
  bool reverse = false, biased = false, has_states = false, tf32 = false, projected = false;

  Recurrence() = default;
  explicit Recurrence(std::span<const std::int64_t> attrs)
      : cell(static_cast<Cell>(attrs[0])),
        reverse(attrs[1] != 0),
        biased(attrs[2] != 0),
        has_states(attrs[3] != 0),
        tf32(attrs[4] != 0),
        projected(attrs[5] != 0) {}

  bool is_lstm() const { return cell == Cell::lstm; }
  bool is_gru() const { return cell == Cell::gru; }
  int states() const { return is_lstm() ? 2 : 1; }
  int kept() const { return is_lstm() ? 5 : is_gru() ? 4 : 0; }
  // Positions of the inputs.
  int bias() const { return 2; }
  int projection() const { return bias() + (biased ? 1 : 0); }
  int h() const { return projection() + (projected ? 1 : 0); }
  int c() const { return h() + 1; }
};

// Attributes of `recurrent_grad`: those of `recurrent`, but with one bit for each gradient that is
// given (of the output, h and c) in place of the bias. Inputs: weight; projection; the first h of a
// GRU or c of an LSTM, if given; the output, except for an LSTM; the values kept; the gradients.
// Results: the gradients of x and of the first h; for an LSTM that of the first c; for a GRU that
// of each step's product of state and weight; with a projection that of every h.
struct RecurrenceGrad {
  Recurrence of;
  bool output = false, h = false, c = false;  // gradients that are given

  explicit RecurrenceGrad(std::span<const std::int64_t> attrs)
      : of(attrs), output((attrs[2] & 1) != 0), h((attrs[2] & 2) != 0), c((attrs[2] & 4) != 0) {}
};

}  // namespace volta::graph
