// The addresses of one run.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/driver.h"
#include "backend/steps.h"

namespace volta::cuda {

// The buffers of one run, or of an iteration of a loop.
struct Bound {
  std::span<const std::uint64_t> leaves, outputs;
  std::uint64_t arena = 0;
  std::int64_t iteration = 0;

  CUdeviceptr operator[](const plan::BufferRef& buffer) const {
    const CUdeviceptr start = buffer.kind == plan::BufferRef::Kind::Leaf     ? leaves[buffer.index]
                              : buffer.kind == plan::BufferRef::Kind::Output ? outputs[buffer.index]
                                                                             : arena;
    return start + buffer.offset_in(iteration);
  }
};

// An element of a buffer.
inline CUdeviceptr element(CUdeviceptr base, std::int64_t offset, DType dtype) {
  return base + static_cast<CUdeviceptr>(offset) * size_of(dtype);
}

// An address that is as aligned as this part of a buffer is in every iteration of a loop.
inline CUdeviceptr least_aligned(CUdeviceptr address, const plan::BufferRef& buffer) {
  return address | static_cast<CUdeviceptr>(buffer.stride);
}

}  // namespace volta::cuda
