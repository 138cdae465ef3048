// CPU tensors to be filled in: memory first, then a tensor on it without a copy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::data {

// A tensor and its memory, to be written before anybody else gets the tensor, and not afterwards.
// Memory of tensors that are gone is used again.
struct HostTensor {
  Tensor tensor;
  std::byte* memory = nullptr;
};
// `reader`: where the values go from here; its driver may have memory that it copies faster.
HostTensor host_tensor(const Shape& shape, DType dtype, Device reader = Device::cpu());

// The same values in another shape of as many elements, without recording anything.
Tensor reshaped(const Tensor& computed, const Shape& shape);

// [rows, ...shape].
Shape stacked(std::int64_t rows, const Shape& shape);
// The bytes of one element of the first axis.
std::size_t row_bytes(const Shape& shape, DType dtype);

}  // namespace volta::data
