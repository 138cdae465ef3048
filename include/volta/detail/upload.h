// Copies many arrays from the host to a device at once, for readers of files. Not part of the API.
#pragma once

#include <span>
#include <vector>

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::detail {

// A contiguous array in host memory.
struct HostArray {
  const void* data;
  Shape shape;
  DType dtype;
};

// Makes a tensor on the device from each array. Arrays that are adjacent in memory are copied
// together, at the speed of one large copy, and split on the device.
VOLTA_BACKEND_API std::vector<Tensor> upload_all(const char* op, std::span<const HostArray> arrays,
                                                 Device device);

}  // namespace volta::detail
