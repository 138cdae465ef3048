// Functions on CPU tensors for the readers of data.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "volta/detail/host_tensor.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::data {

using detail::host_tensor;
using detail::HostTensor;

// Returns the same values in another shape with as many elements. No operation is recorded.
Tensor reshaped(const Tensor& computed, const Shape& shape);

// Returns the shape [rows, ...shape].
Shape stacked(std::int64_t rows, const Shape& shape);
// Returns the size in bytes of one element of the first axis.
std::size_t row_bytes(const Shape& shape, DType dtype);

}  // namespace volta::data
