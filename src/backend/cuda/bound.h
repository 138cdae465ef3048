// The addresses of one run.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/driver.h"
#include "backend/steps.h"

namespace volta::cuda {

// The buffers of one run.
struct Bound {
  std::span<const std::uint64_t> leaves, outputs;
  std::uint64_t arena = 0;

  CUdeviceptr operator[](const plan::BufferRef& buffer) const {
    switch (buffer.kind) {
      case plan::BufferRef::Kind::Leaf:
        return leaves[buffer.index];
      case plan::BufferRef::Kind::Output:
        return outputs[buffer.index];
      case plan::BufferRef::Kind::Temp:
        break;
    }
    return arena + buffer.offset;
  }
};

// An element of a buffer.
inline CUdeviceptr element(CUdeviceptr base, std::int64_t offset, DType dtype) {
  return base + static_cast<CUdeviceptr>(offset) * size_of(dtype);
}

}  // namespace volta::cuda
