// VOLTA_CPU_ISA, and how it is passed to Highway and oneDNN.
#include "backend/cpu/vector/processor.h"

#include <fmt/format.h>
#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "core/log_once.h"
#include "platform/env.h"
#include "volta/error.h"

#ifdef VOLTA_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace volta::cpu {
namespace {

constexpr std::array<std::pair<std::string_view, InstructionSet>, 4> kNames = {{
    {"ssse3", InstructionSet::Ssse3},
    {"sse4", InstructionSet::Sse4},
    {"avx2", InstructionSet::Avx2},
    {"avx512", InstructionSet::Avx512},
}};

// Highway's targets that need more than the instruction set. Better targets have lower bits.
std::int64_t targets_beyond(InstructionSet set) {
#if HWY_ARCH_X86
  constexpr std::int64_t kTargets[] = {HWY_SSSE3, HWY_SSE4, HWY_AVX2, HWY_AVX3_DL};
  return kTargets[static_cast<std::size_t>(set)] - 1;
#else
  static_cast<void>(set);
  return 0;
#endif
}

}  // namespace

InstructionSet parse_instruction_set(std::string_view name) {
  for (const auto& [known, set] : kNames) {
    if (name == known) return set;
  }
  throw ArgumentError(
      fmt::format("VOLTA_CPU_ISA is '{}'; it must be avx512, avx2, sse4 or ssse3", name));
}

std::optional<InstructionSet> instruction_limit() {
  static const std::optional<InstructionSet> limit = []() -> std::optional<InstructionSet> {
    const std::optional<std::string> name = platform::environment("VOLTA_CPU_ISA");
    if (!name) return std::nullopt;
    return parse_instruction_set(*name);
  }();
  return limit;
}

void limit_vector_instructions() {
  static const bool once = [] {
    if (const auto limit = instruction_limit()) hwy::DisableTargets(targets_beyond(*limit));
    return true;
  }();
  static_cast<void>(once);
}

void limit_onednn_instructions() {
#ifdef VOLTA_HAS_ONEDNN
  static const bool once = [] {
    const auto limit = instruction_limit();
    if (!limit) return true;
    // oneDNN has no code below SSE4.1.
    constexpr dnnl::cpu_isa kSets[] = {dnnl::cpu_isa::sse41, dnnl::cpu_isa::sse41,
                                       dnnl::cpu_isa::avx2, dnnl::cpu_isa::avx512_core};
    const auto set = kSets[static_cast<std::size_t>(*limit)];
    if (dnnl::set_max_cpu_isa(set) != dnnl::status::success) {
      log_once("VOLTA_CPU_ISA", LogLevel::warning,
               "VOLTA_CPU_ISA does not limit oneDNN, which this process has used before");
    }
    return true;
  }();
  static_cast<void>(once);
#endif
}

}  // namespace volta::cpu
