// Handwritten forms of the ten digits: several styles per digit, as strokes through knots.
#pragma once

#include <span>

namespace volta::data {

// A point on a stroke, in a box of about 1 x 1 with y downwards. The direction changes abruptly at
// a corner and smoothly elsewhere.
struct Knot {
  float x, y;
  bool corner = false;
};

using Stroke = std::span<const Knot>;

struct Style {
  std::span<const Stroke> strokes;
  float share;  // fraction of the digit's examples that have this style
};

// Returns the styles of a digit from 0 to 9.
std::span<const Style> digit_styles(int digit);

}  // namespace volta::data
