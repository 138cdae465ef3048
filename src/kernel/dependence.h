// The axes over which an instruction's value varies, the instructions that matter, and the values
// that a phase of a Row evaluates. Shared by validation and emission.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// Per instruction: the set of axes (bit n for axis n) over which its value varies. A Reduce drops
// the Red axes; a Store has the axes of its value, index and mask.
std::vector<std::uint64_t> axis_dependence(const Program& program);

// The axes whose extent is the literal 1.
std::uint64_t unit_axes(const Program& program);

// Per instruction: whether it is a Store or Bounded, or is needed by one.
std::vector<bool> live_instructions(const Program& program);

// Per instruction: whether its row values (domain Full) are needed by the Reduces, Stores and
// Bounded of `phase`. The Reduces, and those Stores and Bounded that have domain Full, are
// included.
std::vector<bool> row_values_of_phase(const Program& program, const Analysis& analysis, int phase);

}  // namespace volta::kernel
