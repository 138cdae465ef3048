// Checks of the options that the functions that create tensors share.
#pragma once

#include "backend/registry.h"
#include "graph/record/node.h"
#include "graph/record/placing.h"
#include "volta/tensor.h"

namespace volta::graph {

// The device and dtype of a new tensor.
struct Making {
  DeviceEntry& entry;
  DType dtype;
  AsWritten as_named;  // if the caller named a device, the new tensor is recorded there
};
// Throws if the device is absent or does not support the dtype, if the size in bytes overflows, or
// if a gradient is asked for and the dtype has none. `from_host`: the values are on the host.
Making making(const char* op, const Shape& shape, const TensorOptions& options, DType natural,
              bool from_host = false);
void require_differentiable(const char* op, DType dtype);
// Fills options that are not set with those of the other tensor.
TensorOptions options_like(const char* op, const Tensor& other, const TensorOptions& options);
// Sets requires_grad on the finished tensor.
Tensor finish(Tensor tensor, bool requires_grad);

// A computed tensor whose value is in the buffer.
Tensor in_buffer(Buffer* buffer, const Shape& shape, DType dtype);

}  // namespace volta::graph
