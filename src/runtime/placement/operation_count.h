// Counts the operations of pending tensors, for model summaries and for placement; the planner does
// not use it.
#pragma once

#include <cstdint>
#include <span>

#include "graph/record/node.h"
#include "graph/record/op.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::graph {

// The operations of one node, counted as volta/detail/operation_count.h says.
std::int64_t operations_of(OpId op, std::span<Node* const> inputs,
                           std::span<const std::int64_t> attrs, const Shape& shape);
// Whether each element of the result is an element of the operand, moved or converted.
bool only_arranges(OpId op);
// Whether the operation consists mainly of matrix products.
bool is_product(OpId op);

}  // namespace volta::graph
