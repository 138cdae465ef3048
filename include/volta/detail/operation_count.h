// Counts the operations of pending tensors for summaries of models. Not part of the API.
#pragma once

#include <cstdint>
#include <span>

#include "volta/tensor.h"

namespace volta::detail {

// Counts the operations that compute `results` from `given`. In matrix products each multiplication
// and each addition is one operation. Everything else counts as one operation per element read or
// written, whichever is more; moving elements is free.
std::int64_t count_operations(std::span<const Tensor> results, std::span<const Tensor> given);

}  // namespace volta::detail
