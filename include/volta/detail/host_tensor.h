// CPU tensors whose memory is filled in before use, without a copy. For readers of data; not part
// of the API.
#pragma once

#include <cstddef>

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::detail {

// A tensor and its memory, which must be written before the tensor is passed on, and not
// afterwards. The memory of destroyed tensors is reused.
struct HostTensor {
  Tensor tensor;
  std::byte* memory = nullptr;
};
// `reader` is the device that will read the values; its driver may have memory that it copies
// faster.
HostTensor host_tensor(const Shape& shape, DType dtype, Device reader = Device::cpu());

}  // namespace volta::detail
