// How many operations pending tensors take: for people who compare networks, not for the planner.
#pragma once

#include <cstdint>
#include <span>

#include "volta/tensor.h"

namespace volta::graph {

// Of what computes `results` from `given`. Multiplications and additions of products count one
// each, of everything else one per element read or written, whichever is more; moving is free.
std::int64_t count_operations(std::span<const Tensor> results, std::span<const Tensor> given);

}  // namespace volta::graph
