// Which axes an instruction's value varies over, which instructions matter, and what a phase of a
// Row evaluates. Shared by validation and emission.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/program.h"

namespace volta::kernel {

// Per instruction: the set of axes (bit n: axis n) its value varies over. A Reduce drops the Red
// axes; a Store has those of its value, index and mask.
std::vector<std::uint64_t> axis_dependence(const Program& program);

// The axes whose extent is the literal 1.
std::uint64_t unit_axes(const Program& program);

// Per instruction: whether a Store or a Bounded needs it (those included).
std::vector<bool> live_instructions(const Program& program);

// Per instruction: whether its row values (domain Full) are needed by what ends in `phase`:
// Reduces, Stores and Bounded of that phase. Those with domain Full, and Reduces, are included
// themselves.
std::vector<bool> row_values_of_phase(const Program& program, const Analysis& analysis, int phase);

}  // namespace volta::kernel
