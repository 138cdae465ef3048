// Chains of operations in a kernel program: values that are used once, by the next operation at the
// same place, never leave the machine's registers.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/simd_table.h"
#include "kernel/dependence.h"
#include "kernel/program.h"

namespace volta::cpu {

// The steps that compute each instruction; none where it is not part of arithmetic on floats. What
// only lives inside other chains is no longer live. `dependence`: the axes each instruction varies
// over; a chain has one set of them, so that what varies over fewer axes can be computed less
// often. `rows`: blocks lie along the reduced axes, so that values of a Par point are uniform to
// them.
std::vector<std::vector<ChainStep>> find_chains(const kernel::Program& program,
                                                const kernel::Analysis& analysis,
                                                const std::vector<std::uint64_t>& dependence,
                                                bool rows, std::vector<bool>& live);

}  // namespace volta::cpu
