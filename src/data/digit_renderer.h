// Draws one digit as a pen would: a style's strokes, distorted, and normalised as MNIST's are: ink
// in a box of 20 by 20, its centre of mass in the middle of 28 by 28.
#pragma once

#include <cstdint>
#include <span>

#include "volta/data/random.h"

namespace volta::data {

inline constexpr int kDigitSide = 28;
inline constexpr int kDigitPixels = kDigitSide * kDigitSide;

// The same bytes on every machine: sums, products, quotients and roots of f32 in a fixed order.
void draw_digit(int digit, Random& random, std::span<std::uint8_t, kDigitPixels> image);

}  // namespace volta::data
