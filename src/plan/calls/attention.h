// Attention as a library call.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/steps.h"
#include "plan/calls/call.h"
#include "volta/export.h"

namespace volta::plan {

const Call& attention_call();
bool is_attention(const Value& value);

// Lowers attention to a call of the device's library, with operands as AttentionStep says. Returns
// the results in order; none if the device has no library for the step.
std::vector<Expr> attention(Lowering& lowering, AttentionStep step, std::span<const Expr> operands);

// The step that a value stands for, without buffers and label.
AttentionStep attention_of(const Value& value);
// Stores the step in the value's attributes.
void set_attention(Value& value, const AttentionStep& step);

// Computes the step in f32 on the host. `reads` and `writes` are the memory of its operands and
// results, in the order of the step. Rows of scores are computed one at a time; the matrix is never
// stored.
VOLTA_BACKEND_API void attend(const AttentionStep& step, std::span<const std::byte* const> reads,
                              std::span<std::byte* const> writes);

}  // namespace volta::plan
