// What the nodes of a recurrent layer have as attributes, inputs and results.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "volta/recurrent.h"

namespace volta::graph {

// Attributes of `recurrent`. Inputs: x, weight, bias, projection, h, c, those that there are.
// Results: the output, the last h and, of an LSTM, c; then what is kept for the gradient, all of it
// [length, batch, size]: of an LSTM i, f, g, o and every c, of a GRU r, z, n and the state's part
// of n.
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
  // Inputs.
  int bias() const { return 2; }
  int projection() const { return bias() + (biased ? 1 : 0); }
  int h() const { return projection() + (projected ? 1 : 0); }
  int c() const { return h() + 1; }
};

// Attributes of `recurrent_grad`: the same, with which gradients there are (of the output, h, c: a
// bit each) in place of the bias. Inputs: weight; projection; of a GRU h, of an LSTM c, if given;
// the output unless it is an LSTM; what was kept; the gradients. Results: the gradients of x, of
// the first h; of an LSTM of the first c, of a GRU of what each step adds to x; with a projection,
// of every h.
struct RecurrenceGrad {
  Recurrence of;
  bool output = false, h = false, c = false;  // gradients that there are

  explicit RecurrenceGrad(std::span<const std::int64_t> attrs)
      : of(attrs), output((attrs[2] & 1) != 0), h((attrs[2] & 2) != 0), c((attrs[2] & 4) != 0) {}
};

}  // namespace volta::graph
