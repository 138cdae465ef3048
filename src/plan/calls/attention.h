// Attention as a library call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/steps.h"
#include "plan/calls/call.h"
#include "volta/export.h"

namespace volta::plan {

const Call& attention_call();
bool is_attention(const Value& value);

// The sizes of attention that may be open where kernels run it.
struct AttentionExtents {
  Extent batch, heads, kv_heads, queries, keys;
};

// Lowers attention to a call with operands as AttentionStep says: of the device's library if all
// sizes are numbers and there is no mask, else of kernels that take any sizes. `step` says
// everything but the sizes, the head size included. Returns the results in order; none if the
// device has neither for the step.
std::vector<Expr> attention(Lowering& lowering, AttentionStep step, const AttentionExtents& sizes,
                            std::span<const Expr> operands);

// The step that a value stands for at the sizes of planning, without buffers and label.
AttentionStep attention_of(const Value& value);
// Changes which results are written with heads first, and the workspace of the library.
void set_heads_first(Value& value, unsigned heads_first, std::uint64_t workspace_bytes);

// Computes the step in f32 on the host. `reads` and `writes` are the memory of its operands and
// results, in the order of the step. Rows of scores are computed one at a time; the matrix is never
// stored.
VOLTA_BACKEND_API void attend(const AttentionStep& step, std::span<const std::byte* const> reads,
                              std::span<std::byte* const> writes);

}  // namespace volta::plan
