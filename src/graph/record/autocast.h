// How an Autocast scope converts the operands of operations while they are recorded. The rule of an
// operation is in its row of the table (Op::autocast) or is given by the function that composes it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "graph/record/apply.h"
#include "graph/record/op.h"
#include "graph/record/recording_state.h"
#include "volta/tensor.h"

namespace volta::graph {

inline bool in_autocast() { return recording_state.autocast != DType::f32; }

constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
constexpr DType without_halves(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

// The dtype that the scope requires for the operands of an operation, or nothing if they all have
// it. Used by operations of several operands, which compare and promote them before a node is
// recorded. Undefined operands are ignored.
std::optional<DType> wanted_dtype(AutocastRule rule, std::span<const Tensor* const> operands);
inline std::optional<DType> autocast_dtype(AutocastRule rule,
                                           std::initializer_list<const Tensor*> operands) {
  if (!in_autocast()) [[likely]]
    return std::nullopt;
  return wanted_dtype(rule, std::span(operands.begin(), operands.size()));
}
inline std::optional<DType> autocast_dtype(OpId op, std::initializer_list<const Tensor*> operands) {
  return autocast_dtype(op_info(op).autocast, operands);
}
// Converts a floating-point operand to the dtype. A parameter is converted once for all nested
// scopes.
Tensor autocast(const Tensor& operand, DType dtype, SourceLocation place);

// The inputs converted to f32 if the operation computes in f32 and any input is f16 or bf16;
// otherwise empty.
std::vector<Tensor> in_full_precision(OpId op, std::span<const Borrowed> inputs,
                                      SourceLocation place);

// Drops the cached conversion of a variable that was assigned to or destroyed. Call only if this
// thread has a cache (recording_state.casts).
void forget_cast(const Variable& variable) noexcept;

// The number of parameters whose conversion this thread caches.
VOLTA_BACKEND_API std::size_t kept_casts();

}  // namespace volta::graph
