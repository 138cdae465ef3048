// How many operations pending tensors take: for people who compare networks, not for the planner.
#pragma once

#include <cstdint>
#include <span>

#include "graph/node.h"
#include "graph/op.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::graph {

// Of what computes `results` from `given`. Multiplications and additions of products count one
// each, of everything else one per element read or written, whichever is more; moving is free.
std::int64_t count_operations(std::span<const Tensor> results, std::span<const Tensor> given);

// The same of one operation.
std::int64_t operations_of(OpId op, std::span<Node* const> inputs,
                           std::span<const std::int64_t> attrs, const Shape& shape);
// Whether each element is one of the operand's, at another place or of another dtype.
bool only_arranges(OpId op);
// Whether it is products of matrices, or is like them.
bool is_product(OpId op);

}  // namespace volta::graph
