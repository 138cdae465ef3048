// Many arrays of the host to a device at once.
#pragma once

#include <span>
#include <vector>

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::graph {

struct Node;

// Gives a value that only the host has (plan/runner.cpp: the CPU computed it) memory on its device.
// Under the device's lock.
void make_resident(Node& node);

// An array in host memory, contiguous.
struct HostArray {
  const void* data;
  Shape shape;
  DType dtype;
};

// A tensor on the device for each. Arrays that follow each other in memory go in one copy, at the
// speed of a large one, and are taken apart on the device.
VOLTA_BACKEND_API std::vector<Tensor> upload_all(const char* op, std::span<const HostArray> arrays,
                                                 Device device);

}  // namespace volta::graph
