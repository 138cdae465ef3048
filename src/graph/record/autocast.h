// What an Autocast scope does to operations while they are recorded. The rule of each is in its row
// of the table (Op::autocast), or stated by the function that composes it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "graph/apply.h"
#include "graph/op.h"
#include "graph/recording_state.h"
#include "volta/tensor.h"

namespace volta::graph {

inline bool in_autocast() { return recording_state.autocast != DType::f32; }

constexpr bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }
constexpr DType without_halves(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

// The dtype that the scope wants the operands of an operation in: for operations of several
// operands, which are compared and promoted before a node is recorded. Nothing where they have it
// already; undefined operands do not count.
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
// An operand in that dtype, if it is a float; a parameter is converted once for the nest of scopes.
Tensor autocast(const Tensor& operand, DType dtype, Place place);

// The inputs of a node that is computed in f32, if halves are among them; else none.
std::vector<Tensor> in_full_precision(OpId op, std::span<const Borrowed> inputs, Place place);

// The variable has another value, or is gone: what it was converted to is of no use. Only where
// casts are kept (recording_state.casts).
void forget_cast(const Variable& variable) noexcept;

// Parameters of which this thread keeps what they were converted to.
VOLTA_BACKEND_API std::size_t kept_casts();

}  // namespace volta::graph
