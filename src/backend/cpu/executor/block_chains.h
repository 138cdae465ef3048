// Chains of operations in a kernel program: a value used only once, by the next operation on the
// same element, never leaves the machine's registers.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/vector/simd_table.h"
#include "kernel/dependence.h"
#include "kernel/program.h"

namespace volta::cpu {

// The chain steps that compute each instruction; empty if it is not float arithmetic. Values used
// only inside other chains are removed from `live`. `dependence` holds the axes over which each
// instruction varies; all values of a chain vary over the same axes, so that values which vary over
// fewer axes can be computed less often. `rows` says that blocks lie along the reduced axes, so
// that values of a Par point are uniform within a block.
std::vector<std::vector<ChainStep>> find_chains(const kernel::Program& program,
                                                const kernel::Analysis& analysis,
                                                const std::vector<std::uint64_t>& dependence,
                                                bool rows, std::vector<bool>& live);

}  // namespace volta::cpu
