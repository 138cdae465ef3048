// The instruction sets that the CPU backend may use. VOLTA_CPU_ISA limits them, so that one machine
// computes like another; the limit applies to our own kernels and to oneDNN.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "volta/export.h"

namespace volta::cpu {

// The sets are in ascending order. Avx512 does not include the bf16 instructions that came later.
enum class InstructionSet : std::uint8_t { Ssse3, Sse4, Avx2, Avx512 };

// The limit set by VOLTA_CPU_ISA, or nothing if there is none. Throws ArgumentError for an unknown
// value.
VOLTA_BACKEND_API std::optional<InstructionSet> instruction_limit();
// The instruction set that has this name in VOLTA_CPU_ISA. Throws ArgumentError.
VOLTA_BACKEND_API InstructionSet parse_instruction_set(std::string_view name);

// Each function has to be called before its library is first used, and acts only once: Highway
// chooses its target at the first call, oneDNN at its first primitive.
void limit_vector_instructions();
void limit_onednn_instructions();

}  // namespace volta::cpu
