// Which instructions of the processor the CPU backend may use. VOLTA_CPU_ISA limits them, so that
// one machine computes as another would; the limit holds for our own kernels and for oneDNN.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "volta/export.h"

namespace volta::cpu {

// In ascending order. Avx512 is without the instructions for bf16 that came later.
enum class InstructionSet : std::uint8_t { Ssse3, Sse4, Avx2, Avx512 };

// The limit that VOLTA_CPU_ISA sets; nothing: everything the processor has. Throws ArgumentError
// for a value that is none.
VOLTA_BACKEND_API std::optional<InstructionSet> instruction_limit();
// The instruction set of a name as VOLTA_CPU_ISA takes it. Throws ArgumentError.
VOLTA_BACKEND_API InstructionSet parse_instruction_set(std::string_view name);

// Each has to be called before the library below is first used, and does its work once: Highway
// chooses its target at the first call, oneDNN at its first primitive.
void limit_vector_instructions();
void limit_onednn_instructions();

}  // namespace volta::cpu
