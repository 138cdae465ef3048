// Draws one digit with a pen: the strokes of a style are distorted and then normalised like MNIST's
// digits, with the ink in a box of 20 x 20 and its centre of mass in the middle of 28 x 28.
#pragma once

#include <cstdint>
#include <span>

#include "volta/data/random.h"

namespace volta::data {

inline constexpr int kDigitSide = 28;
inline constexpr int kDigitPixels = kDigitSide * kDigitSide;

// The bytes are the same on every machine: all f32 operations run in a fixed order.
void draw_digit(int digit, Random& random, std::span<std::uint8_t, kDigitPixels> image);

}  // namespace volta::data
