// What the functions that make tensors share: their options, checked.
#pragma once

#include "core/registry.h"
#include "graph/node.h"
#include "graph/placement.h"
#include "volta/tensor.h"

namespace volta::graph {

// Where and as what a tensor is made.
struct Making {
  DeviceEntry& entry;
  DType dtype;
  AsWritten as_named;  // what is recorded to make it runs on the device, if that was named
};
// Throws where the device is absent or has no such dtype, the bytes cannot be counted, or the dtype
// has no gradient that is asked for.
// `from_host`: of values that the host has.
Making making(const char* op, const Shape& shape, const TensorOptions& options, DType natural,
              bool from_host = false);
void require_differentiable(const char* op, DType dtype);
// As `options`, but like the other tensor where they say nothing.
TensorOptions options_like(const char* op, const Tensor& other, const TensorOptions& options);
// The last touch: requires_grad.
Tensor finish(Tensor tensor, bool requires_grad);

// A computed tensor in this memory.
Tensor in_buffer(Buffer* buffer, const Shape& shape, DType dtype);

}  // namespace volta::graph
