// How people write the ten digits: for each several ways, as strokes through knots.
#pragma once

#include <span>

namespace volta::data {

// A point that a stroke goes through, in a box of about 1 by 1, y downwards. At a corner the
// direction changes at once, elsewhere smoothly.
struct Knot {
  float x, y;
  bool corner = false;
};

using Stroke = std::span<const Knot>;

struct Style {
  std::span<const Stroke> strokes;
  float share;  // of all examples of the digit
};

// The styles of a digit, 0 to 9.
std::span<const Style> digit_styles(int digit);

}  // namespace volta::data
