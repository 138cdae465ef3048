// Attention on the host, to compare a library's with.
#pragma once

#include <cstddef>
#include <span>

#include "plan/plan_steps.h"
#include "volta/export.h"

namespace volta::plan {

// What the step computes, in f32, from its operands' memory to its results', both in the order of
// the step. Each row of scores is computed anew: no matrix of them is kept.
VOLTA_BACKEND_API void attend(const AttentionStep& step, std::span<const std::byte* const> reads,
                              std::span<std::byte* const> writes);

}  // namespace volta::plan
